from __future__ import annotations

import json

import numpy as np

from service.api.inspect.attention_answers import LinkAnswer, ScoreAnswer, ScoresAnswer, TokenAnswer
from service.api.libretranslate.translate import TranslateAnswer
from service.api.responses import json_bytes, list_json

SCORES = [
    ScoreAnswer(
        log_prob=-n, score=-0.5, perplexity=1.5, tokens=[TokenAnswer(piece="ä", log_prob=-n)]
    )
    for n in (0.0, 0.25)
]


def test_answer_is_encoded_as_its_model_describes() -> None:
    answer = ScoresAnswer(scores=SCORES)
    expected = answer.model_dump_json(exclude_unset=True)
    assert json.loads(json_bytes(answer)) == json.loads(expected)
    assert "confidence" not in expected
    assert (
        json_bytes(TranslateAnswer.model_construct(translated_text="ä"))
        == '{"translatedText":"ä"}'.encode()
    )


def test_numpy_float_is_a_number() -> None:
    link = LinkAnswer(source=0, target=1, weight=np.float64(0.5))
    assert json.loads(json_bytes(link)) == {"source": 0, "target": 1, "weight": 0.5}


def test_lone_surrogate_is_escaped() -> None:
    found = {"found": TranslateAnswer.model_construct(translated_text=["\ud800"])}
    assert json.loads(json_bytes(found)) == {"found": {"translatedText": ["\ud800"]}}


def test_long_list_equals_an_answer_with_these_items() -> None:
    listed = json.loads(list_json("scores", iter(SCORES), name="\ud800"))
    assert listed.pop("name") == "\ud800"
    assert listed == json.loads(json_bytes(ScoresAnswer(scores=SCORES)))

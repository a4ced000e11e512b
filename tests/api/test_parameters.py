from __future__ import annotations

from contextlib import suppress
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from service.api.deepl.translate import TextParameters
from service.api.errors import BadRequest
from service.api.fields.parameters import form_pairs, json_object
from service.api.inspect.attention_parameters import ScoreParameters
from service.api.libretranslate.languages import DetectParameters
from service.api.libretranslate.translate import TranslateParameters

TEXT = st.text(st.characters(codec="utf-8"))


@given(st.lists(st.tuples(TEXT, TEXT).filter(any)))
def test_form_pairs_are_those_that_were_encoded(pairs: list[tuple[str, str]]) -> None:
    assert form_pairs(urlencode(pairs).encode()) == pairs


@given(st.text("%+&=;aF04zZ é"))
def test_form_pairs_are_those_of_the_standard_library(form: str) -> None:
    plain = parse_qsl(form, keep_blank_values=True, errors="replace")
    if any("\ufffd" in part for pair in plain for part in pair):
        with pytest.raises(BadRequest, match="not UTF-8"):
            form_pairs(form.encode())
    else:
        assert form_pairs(form.encode()) == plain


@given(st.binary(max_size=60))
def test_body_that_is_no_json_object_raises_bad_request(body: bytes) -> None:
    with suppress(BadRequest):
        assert isinstance(json_object(body), dict)


def test_too_many_parameters_are_refused() -> None:
    assert len(form_pairs(b"&".join([b"a=1"] * 4_000))) == 4_000
    with pytest.raises(BadRequest, match="more than 4000 parameters"):
        form_pairs(b"&".join([b"a=1"] * 4_001))


@pytest.mark.parametrize(
    ("model", "field"),
    [
        (TranslateParameters, "q"),
        (DetectParameters, "q"),
        (TextParameters, "text"),
        (TextParameters, "glossary_ids"),
        (ScoreParameters, "source_text"),
        (ScoreParameters, "target_text"),
    ],
)
def test_first_item_that_is_no_text_ends_the_validation(model: type[BaseModel], field: str) -> None:
    def errors(items: int) -> int:
        with pytest.raises(ValidationError) as raised:
            model.model_validate({field: [1] * items}, strict=True)
        return raised.value.error_count()

    assert errors(100) == errors(1)

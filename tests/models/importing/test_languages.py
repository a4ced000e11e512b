from __future__ import annotations

import pytest

from models.importing.languages import Languages, by_code, usual_code
from models.importing.refusals import UnknownLanguages


@pytest.mark.parametrize(
    ("checkpoint_code", "usual"),
    [
        ("deu_Latn", "de"),
        ("arb_Arab", "ar"),
        ("zho_Hant", "zh-Hant"),
        ("zho_Hans", "zh"),
        ("swh_Latn", "sw"),
        ("pt_BR", "pt-BR"),
        ("eng", "en"),
        ("x-digits", "x-digits"),
        ("ns", "nso"),
    ],
)
def test_checkpoint_codes_become_common_codes(checkpoint_code: str, usual: str) -> None:
    assert usual_code(checkpoint_code) == usual


def test_languages_that_would_share_a_code_keep_their_own() -> None:
    tokens = ["kor_Hang", "ace_Arab", "ace_Latn", "zho_Hans", "zho_Hant", "xx_Deva1"]
    codes = by_code((token, (i,)) for i, token in enumerate(tokens))
    assert codes == {"ko": (0,), "ace-Arab": (1,), "ace": (2,), "zh": (3,), "zh-Hant": (4,)}


MANY = Languages(
    source={"de": (7,), "en": (8,)}, target={"de": (), "en": ()}, fed={"de": (7,), "en": (8,)}
)
TAGGED = Languages(source={"en": ()}, target={"fr": (5,), "pt-BR": (6,)}, source_open=True)


def test_every_pair_gets_the_tokens_of_its_languages() -> None:
    first, second = MANY.directions([], [])
    assert (first.source, first.target) == ("de", "en")
    assert (first.source_prefix, first.target_prefix) == ((7,), (8,))
    assert (second.source, second.target) == ("en", "de")
    tagged = TAGGED.directions([], [])
    assert [(d.target, d.source_prefix) for d in tagged] == [("fr", (5,)), ("pt-BR", (6,))]


def test_languages_can_be_chosen_by_any_of_their_codes() -> None:
    (direction,) = MANY.directions(["deu_Latn"], ["eng_Latn"])
    assert (direction.source, direction.target) == ("de", "en")
    (named,) = TAGGED.directions(["en-GB"], ["fra"])
    assert (named.source, named.target) == ("en-GB", "fr")


def test_unknown_languages_are_refused_by_name() -> None:
    anything = Languages(source={"de": ()}, source_open=True, target_open=True)
    for languages, sources, targets, named in (
        (MANY, ["cs"], ["de"], "cs is not a source language"),
        (TAGGED, [], ["es"], "es is not a target language"),
        (MANY, ["german"], ["de"], "'german' is not"),
        (MANY, ["de"], ["de"], "from de to de"),
        (anything, [], [], "--to CODE"),
    ):
        with pytest.raises(UnknownLanguages, match=named):
            languages.directions(sources, targets)


def test_large_number_of_pairs_must_be_requested_explicitly() -> None:
    codes = by_code((f"x-{a}{b}", ()) for a in "abcdefgh" for b in "abcdefgh")
    babel = Languages(source=codes, target=codes, fed=codes)
    with pytest.raises(UnknownLanguages, match="64 languages into 64; name those"):
        babel.directions([], [])
    assert len(babel.directions(list(codes), list(codes))) == 64 * 63

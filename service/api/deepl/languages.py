"""DeepL's codes of languages, and ours.

DeepL writes codes in capitals, tells variants of English and Portuguese apart as targets, and has
glossaries for a language as a whole. A variant that no model has is its language, so ``EN-US`` and
``EN-GB`` are both ``en``.
"""

from __future__ import annotations

from types import MappingProxyType

from service.api.errors import BadRequest
from service.translation.catalogue import Catalogue, Side
from service.translation.errors import UnknownLanguage
from service.translation.types import LanguagePair

_VARIANTS = MappingProxyType(
    {
        "en": (("EN-GB", "English (British)"), ("EN-US", "English (American)")),
        "pt": (("PT-BR", "Portuguese (Brazilian)"), ("PT-PT", "Portuguese (European)")),
    }
)
"""As which DeepL lists targets; its client sends neither ``EN`` nor ``PT``."""
_PARAMETERS: MappingProxyType[Side, str] = MappingProxyType(
    {"sources": "source_lang", "targets": "target_lang"}
)
_PRIVATE_USE = "x-"


def shown(code: str) -> str:
    """A code of ours as DeepL writes it."""
    return code.upper()


def base(code: str) -> str:
    """A code of ours without its variant, as glossaries name languages."""
    return code if code.startswith(_PRIVATE_USE) else code.partition("-")[0]


def language(offer: Catalogue, code: str, side: Side) -> str:
    """Our code for one of DeepL's; raises ``BadRequest`` if nothing on offer comes near it.

    That is the language itself, else the language it is a variant of, else the only variant of it
    that is on offer.
    """
    wanted = code.strip().replace("_", "-")
    try:
        return offer.language(wanted, side)
    except UnknownLanguage as error:
        unknown = error
    primary = base(wanted.lower())
    offered = offer.sources if side == "sources" else offer.targets
    fitting = [each for each in offered if base(each) == primary]
    if primary in fitting:
        return primary
    if len(fitting) == 1 and wanted.lower() == primary:
        return fitting[0]
    raise BadRequest(f"Value for '{_PARAMETERS[side]}' not supported. {unknown}") from unknown


def glossary_pair(offer: Catalogue, source: str, target: str) -> LanguagePair:
    """The pair of a dictionary; raises ``BadRequest`` if no model translates it directly."""
    pair = LanguagePair(language(offer, source, "sources"), language(offer, target, "targets"))
    if pair not in offer.direct_pairs():
        offered = ", ".join(map(str, offer.direct_pairs()))
        raise BadRequest(f"glossaries are not supported for {pair}; on offer: {offered}")
    return pair


def stored_pair(source: str, target: str, pairs: tuple[LanguagePair, ...]) -> LanguagePair:
    """Which of some pairs is meant by DeepL's codes; the codes themselves if none is.

    What is stored may be older than what is on offer, so this does not ask for it.
    """
    wanted = LanguagePair(source.strip().lower(), target.strip().lower())
    for pair in pairs:
        if LanguagePair(pair.source.lower(), pair.target.lower()) == wanted:
            return pair
    for pair in pairs:
        if (base(pair.source), base(pair.target)) == (base(wanted.source), base(wanted.target)):
            return pair
    return wanted


def listed(offer: Catalogue, side: Side) -> list[dict[str, str | bool]]:
    """The languages of one side as ``GET /v2/languages`` has them."""
    answers: list[dict[str, str | bool]] = []
    offered = offer.sources if side == "sources" else offer.targets
    for each in offer.languages:
        if each.code not in offered:
            continue
        if side == "sources":
            answers.append({"language": shown(each.code), "name": each.name})
            continue
        for code, name in _VARIANTS.get(each.code, ((shown(each.code), each.name),)):
            answers.append({"language": code, "name": name, "supports_formality": False})
    return answers

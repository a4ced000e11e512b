"""Converts between DeepL's language codes and ours.

DeepL writes codes in capitals, distinguishes target variants of English and Portuguese, and has
glossaries of languages without variants. A variant without a model maps to its language: ``EN-US``
and ``EN-GB`` are both ``en``.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from pydantic import Field

from models.bundle.languages import canonical
from service.api.errors import BadRequest
from service.api.fields.schemas import Answer
from service.catalogue.catalogue import Catalogue, Side
from service.catalogue.errors import UnknownLanguage
from service.catalogue.permission import Permission
from service.text.types import Language, LanguagePair

VARIANTS = MappingProxyType(
    {
        "en": (("EN-GB", "English (British)"), ("EN-US", "English (American)")),
        "pt": (("PT-BR", "Portuguese (Brazilian)"), ("PT-PT", "Portuguese (European)")),
        "zh": (("ZH", "Chinese (simplified)"), ("ZH-HANS", "Chinese (simplified)")),
    }
)
"""Targets that DeepL lists for a language; its client sends neither ``EN`` nor ``PT``."""
_PARAMETERS: MappingProxyType[Side, str] = MappingProxyType(
    {"sources": "source_lang", "targets": "target_lang"}
)
_PRIVATE_USE = "x-"


def shown(code: str) -> str:
    """Our code in DeepL's spelling."""
    return code.upper()


def base(code: str) -> str:
    """Our code without its variant, as in glossaries."""
    return code if code.startswith(_PRIVATE_USE) else code.partition("-")[0]


def language(catalogue: Catalogue, code: str, side: Side) -> str:
    """Our code for one of DeepL's; raises ``BadRequest`` if no loaded language matches.

    The candidates in order: the code itself, its language without the variant, and the only loaded
    variant of it.
    """
    wanted = code.strip().replace("_", "-")
    try:
        return catalogue.language(wanted, side)
    except UnknownLanguage as error:
        unknown = error
    primary = base(wanted.lower())
    offered = catalogue.sources if side == "sources" else catalogue.targets
    fitting = [each for each in offered if base(each) == primary]
    if primary in fitting:
        return primary
    if len(fitting) == 1 and wanted.lower() == primary:
        return fitting[0]
    raise BadRequest(f"Value for '{_PARAMETERS[side]}' not supported. {unknown}") from unknown


def glossary_pair(catalogue: Catalogue, source: str, target: str) -> LanguagePair:
    """The pair of a dictionary; raises ``BadRequest`` if no model translates it directly."""
    pair = LanguagePair(
        language(catalogue, source, "sources"), language(catalogue, target, "targets")
    )
    if pair not in catalogue.direct_pairs():
        offered = ", ".join(map(str, catalogue.direct_pairs()))
        raise BadRequest(f"glossaries are not supported for {pair}; on offer: {offered}")
    return pair


def stored_pair(source: str, target: str, pairs: tuple[LanguagePair, ...]) -> LanguagePair:
    """The pair in ``pairs`` that matches DeepL's codes; else a pair of the codes themselves.

    The catalogue is not consulted, as stored glossaries may be older than the loaded models.
    """
    wanted = LanguagePair(source.strip().lower(), target.strip().lower())
    for pair in pairs:
        if LanguagePair(pair.source.lower(), pair.target.lower()) == wanted:
            return pair
    for pair in pairs:
        if (base(pair.source), base(pair.target)) == (base(wanted.source), base(wanted.target)):
            return pair
    return wanted


class SupportedLanguageAnswer(Answer):
    language: str = Field(examples=["DE"])
    name: str = Field(examples=["German"])
    supports_formality: bool | None = Field(
        default=None, description="Of targets only; always false."
    )


def listed(
    catalogue: Catalogue, side: Side, permission: Permission | None
) -> list[SupportedLanguageAnswer]:
    """The languages of one side as ``GET /v2/languages`` lists them. Blocks for many pairs."""
    permitted = catalogue.permitted(permission)
    offered = codes_of(permitted, side)
    languages = [each for each in permitted if each.code in offered]
    if side == "sources":
        return [
            SupportedLanguageAnswer(language=shown(each.code), name=each.name) for each in languages
        ]
    return [
        SupportedLanguageAnswer(language=code, name=name, supports_formality=False)
        for each in languages
        for code, name in targets_of(catalogue, each)
    ]


def codes_of(languages: Iterable[Language], side: Side) -> set[str]:
    """The codes of the sources, or of the targets, among permitted languages."""
    if side == "sources":
        return {each.code for each in languages if each.targets}
    return {target for each in languages for target in each.targets}


def targets_of(catalogue: Catalogue, each: Language) -> list[tuple[str, str]]:
    """DeepL's codes and names of a target language, without variants that have a model."""
    return [
        (code, name)
        for code, name in VARIANTS.get(each.code, ((shown(each.code), each.name),))
        if canonical(code) == each.code or canonical(code) not in catalogue.targets
    ]

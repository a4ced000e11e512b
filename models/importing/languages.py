"""Language codes of imported checkpoints, and the directions that their bundles offer.

Checkpoints spell codes in several ways (``deu_Latn``, ``fra``, ``pt_br``). Bundles use the codes
that clients send.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import langcodes

from models.bundle.languages import canonical
from models.bundle.manifest import Direction
from models.importing.refusals import UnknownLanguages

Ids = tuple[int, ...]

MOST_DIRECTIONS = 200
"""More directions than this must be requested explicitly."""

_MISSPELT = {"ns": "nso"}
"""M2M100's code of Northern Sotho."""


def usual_code(code: str) -> str:
    """The common code: ``arb_Arab`` and ``ar`` become ``ar``, ``zho_Hant`` becomes ``zh-Hant``.

    An individual language that stands for its macrolanguage gets the latter's code. The default
    script of a language is omitted. Raises ``ValueError`` for an unknown language.
    """
    exact = canonical(_MISSPELT.get(code, code))
    if exact.startswith("x-"):
        return exact
    language = langcodes.Language.get(langcodes.standardize_tag(exact, macro=True))
    bare = _without_script(language.to_tag())
    if language.script is not None and langcodes.get(bare).maximize().script == language.script:
        return canonical(bare)
    return canonical(language.to_tag())


def asked_code(code: str) -> str:
    """The common code of a requested language; raises ``UnknownLanguages``."""
    try:
        return usual_code(code)
    except ValueError as error:
        raise UnknownLanguages(str(error)) from error


@dataclass(frozen=True, slots=True)
class Languages:
    """Token ids that tell the network its languages, by code.

    An ``open`` side accepts any code: the network detects the language, or has only one.
    """

    source: Mapping[str, Ids] = field(default_factory=dict)
    """Prefix of the source, by source language."""
    target: Mapping[str, Ids] = field(default_factory=dict)
    """Prefix of the source, by target language."""
    fed: Mapping[str, Ids] = field(default_factory=dict)
    """Forced prefix of the decoder, by target language."""
    source_open: bool = False
    target_open: bool = False

    def directions(self, sources: Sequence[str], targets: Sequence[str]) -> tuple[Direction, ...]:
        """Every pair of different languages of both sides. Without names, all known pairs, if
        they are at most ``MOST_DIRECTIONS``. Raises ``UnknownLanguages``."""
        from_ = self._chosen("source", "--from", sources, self.source, self.source_open)
        to = self._chosen("target", "--to", targets, self.target, self.target_open)
        found = tuple(
            Direction(
                source=source,
                target=target,
                source_prefix=(*self.target.get(target, ()), *self.source.get(source, ())),
                target_prefix=self.fed.get(target, ()),
            )
            for source in from_
            for target in to
            if source != target
        )
        if len(found) > MOST_DIRECTIONS and not (sources and targets):
            raise UnknownLanguages(
                f"the model translates {len(from_)} languages into {len(to)}; name those that the "
                "bundle shall offer with --languages, or --from and --to"
            )
        if not found:
            raise UnknownLanguages(f"nothing is translated from {from_[0]} to {to[0]}")
        return found

    def _chosen(
        self,
        side: str,
        option: str,
        wanted: Sequence[str],
        known: Mapping[str, Ids],
        any_name: bool,
    ) -> list[str]:
        if not wanted:
            if not known:
                raise UnknownLanguages(
                    f"the checkpoint does not say what its {side} language is; say so with "
                    f"{option} CODE"
                )
            return list(known)
        codes = []
        for code in wanted:
            usual = asked_code(code)
            if usual not in known and _without_script(usual) in known:
                usual = _without_script(usual)
            if usual not in known and not any_name:
                shown = ", ".join(sorted(known))
                raise UnknownLanguages(
                    f"{code} is not a {side} language of this model, which has {shown}"
                )
            codes.append(usual)
        return list(dict.fromkeys(codes))


def by_code(tokens: Iterable[tuple[str, Ids]]) -> dict[str, Ids]:
    """Ids by the common code of each language, or by the exact code if that one is taken.

    A script is omitted if it distinguishes nothing. Tokens that name no language (``>>xx_Deva<<``
    of some models) are omitted.
    """
    found: dict[str, Ids] = {}
    for name, ids in tokens:
        try:
            usual, exact = usual_code(name), canonical(_MISSPELT.get(name, name))
        except ValueError:
            continue
        found.setdefault(exact if usual in found else usual, ids)
    spoken = Counter(langcodes.Language.get(code).language for code in found)
    return {
        code if spoken[langcodes.Language.get(code).language] > 1 else _without_script(code): ids
        for code, ids in found.items()
    }


def _without_script(code: str) -> str:
    language = langcodes.Language.get(code)
    if language.language is None:
        return code
    return langcodes.Language.make(
        language=language.language, territory=language.territory
    ).to_tag()

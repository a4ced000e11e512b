"""The models and languages that a caller may use, where the operator has restricted them."""

from __future__ import annotations

from dataclasses import dataclass

from service.catalogue.errors import NotPermitted
from service.text.types import LanguagePair


@dataclass(frozen=True, slots=True)
class Permission:
    models: frozenset[str] = frozenset()
    """Names of the only models that may be used; all if there are none."""
    languages: frozenset[str] = frozenset()
    """Pairs that may be translated, such as ``de-en``, and codes: two codes permit both of their
    pairs. All pairs if there are none."""

    def permits(self, pair: LanguagePair) -> bool:
        return (
            not self.languages
            or str(pair) in self.languages
            or {pair.source, pair.target} <= self.languages
        )

    def permits_model(self, name: str) -> bool:
        return not self.models or name in self.models

    def check(self, pair: LanguagePair) -> None:
        """Raises ``NotPermitted``."""
        if not self.permits(pair):
            raise NotPermitted("translate", str(pair), self.languages)

    def check_model(self, name: str) -> None:
        """Raises ``NotPermitted``."""
        if not self.permits_model(name):
            raise NotPermitted("use the model", name, self.models)

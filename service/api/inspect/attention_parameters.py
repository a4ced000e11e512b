"""Request fields of the attention routes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from service.api.errors import BadRequest
from service.api.fields.bounds import CHOICE_CHARACTERS
from service.api.fields.options import Key, LanguageCode, Name, Number, Texts
from service.catalogue.permission import Permission
from service.inspection.attention import Kind, MapSelection
from service.inspection.inspector import ModelChoice, Pair

_LARGEST_NUMBER = 1_000_000
_CHOICE = "A number from 0, a range `0-2`, a list `0,2`, `all`, or `mean`."
_RANGE = "[0-9]{1,4}(-[0-9]{1,4})?"


def _as_text(value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    whole = number and (isinstance(value, int) or value.is_integer())
    return str(int(value)) if whole else value


# The pattern is documented, not enforced: only the model knows its layers and heads, and refuses
# by name. JSON may have a number.
_Chosen = Annotated[
    str,
    Field(
        max_length=CHOICE_CHARACTERS,
        json_schema_extra={"pattern": f"^(all|mean|{_RANGE}(,{_RANGE})*)$"},
    ),
    BeforeValidator(_as_text),
]


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _MapParameters(_Parameters):
    kind: Kind = Field(
        "cross",
        description="Attention of the translation to its source (`cross`), of the source to "
        "itself (`encoder`), or of the translation to itself (`decoder`).",
    )
    layer: _Chosen | None = Field(
        None, description=f"{_CHOICE} The last layer if left out.", examples=["2"]
    )
    head: _Chosen = Field("mean", description=_CHOICE, examples=["all"])

    @property
    def selection(self) -> MapSelection:
        return MapSelection(self.kind, self.layer, self.head)


class ViewParameters(_Parameters):
    api_key: Key | None = Field(None, description="Needed where the service requires keys.")


class PlaceParameters(ViewParameters):
    text: Number = Field(0, ge=0, le=_LARGEST_NUMBER, description="Which text, from 0.")
    leg: Number = Field(0, ge=0, le=_LARGEST_NUMBER, description="Which model's part, from 0.")
    sentence: Number = Field(0, ge=0, le=_LARGEST_NUMBER, description="Which sentence, from 0.")


class AttentionParameters(PlaceParameters, _MapParameters):
    format: Literal["json", "npy", "png"] = Field(
        "json",
        description="`npy` is NumPy's file of an array [layers, heads, rows, columns], `png` a "
        "heat map.",
    )


class AlignmentParameters(PlaceParameters):
    format: Literal["json", "pharaoh"] = Field("json", description="`pharaoh` is `0-0 1-2`.")


class SearchParameters(PlaceParameters):
    format: Literal["json", "svg", "png"] = Field("json", description="Others are a drawing.")


class _ModelParameters(ViewParameters):
    source: LanguageCode = Field(description="Language code of the source.", examples=["de"])
    target: LanguageCode = Field(description="Language code of the target.", examples=["en"])
    model: Name | None = Field(None, description="A model by name; any that fits if left out.")

    def choice(self, permission: Permission | None) -> ModelChoice:
        return ModelChoice(self.source, self.target, self.model, permission)


class AttentionOfPairParameters(_ModelParameters, _MapParameters):
    """The fields of ``POST /attention``."""

    source_text: str = Field(
        description="Read as one sentence, however many it has.", examples=["Zwei Hunde."]
    )
    target_text: str = Field(description="Read as one sentence, too.", examples=["Two dogs."])
    format: Literal["json", "npy", "png", "pharaoh"] = Field(
        "json", description="`pharaoh` is the alignment alone; others as in the GET request."
    )
    alignment: bool = Field(False, description="Whether to add the alignment of words to JSON.")


class ScoreParameters(_ModelParameters):
    """The fields of ``POST /score``."""

    source_text: str | Texts = Field(
        description="A text, or a list of texts (JSON only).", examples=["Zwei Hunde."]
    )
    target_text: str | Texts = Field(
        description="A text, or a list of as many. Many targets may have one source.",
        examples=["Two dogs."],
    )
    confidence: bool = Field(
        False, description="Whether to add the probability of each word of the target."
    )

    @property
    def sources(self) -> list[str]:
        return [self.source_text] if isinstance(self.source_text, str) else self.source_text

    @property
    def targets(self) -> list[str]:
        return [self.target_text] if isinstance(self.target_text, str) else self.target_text

    @property
    def pairs(self) -> list[Pair]:
        """Sources with their targets; raises ``BadRequest`` for unequal numbers of them."""
        sources, targets = self.sources, self.targets
        if isinstance(self.source_text, str):
            sources = sources * len(targets)
        if len(sources) != len(targets):
            raise BadRequest(
                f"Invalid request: target_text has {len(targets)} texts, "
                f"source_text has {len(sources)}"
            )
        return [Pair(*texts) for texts in zip(sources, targets, strict=True)]

"""Request fields of the attention routes and their OpenAPI parameters."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from service.api.errors import BadRequest
from service.api.options import Number
from service.translation.attention import Kind, Wanted
from service.translation.inspection import Asked, Pair

_LARGEST_NUMBER = 1_000_000
_CHOICE = "A number from 0, a range `0-2`, a list `0,2`, `all`, or `mean`."
_RANGE = "[0-9]{1,4}(-[0-9]{1,4})?"
# Documented, not enforced: only the model knows its layers and heads, and refuses by name.
_Chosen = (
    Annotated[Number, WithJsonSchema({"type": "integer", "minimum": 0, "maximum": 9999})]
    | Annotated[
        str,
        WithJsonSchema({"type": "string", "pattern": f"^(all|mean|{_RANGE}(,{_RANGE})*)$"}),
    ]
)


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _MapParameters(_Parameters):
    kind: Kind = Field(
        "cross",
        description="What looks at what: the translation at its source (`cross`), the source at "
        "itself (`encoder`), or the translation at itself (`decoder`).",
    )
    layer: _Chosen | None = Field(
        None, description=f"{_CHOICE} The last layer if left out.", examples=["2"]
    )
    head: _Chosen = Field("mean", description=_CHOICE, examples=["all"])

    @property
    def wanted(self) -> Wanted:
        layer = None if self.layer is None else str(self.layer)
        return Wanted(self.kind, layer, str(self.head))


class PlaceParameters(_Parameters):
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


class _AskedParameters(_Parameters):
    source: str = Field(description="Language code of the source.", examples=["de"])
    target: str = Field(description="Language code of the target.", examples=["en"])
    model: str | None = Field(None, description="A model by name; any that fits if left out.")

    @property
    def asked(self) -> Asked:
        return Asked(self.source, self.target, self.model)


class AttentionOfPairParameters(_AskedParameters, _MapParameters):
    """The fields of ``POST /attention``."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"properties": {"format": {"enum": ["json", None]}}},
                {"properties": {"alignment": {"enum": [False, None]}}},
            ]
        }
    )

    source_text: str = Field(
        description="Read as one sentence, however many it has.", examples=["Zwei Hunde."]
    )
    target_text: str = Field(description="Read as one sentence, too.", examples=["Two dogs."])
    format: Literal["json", "npy", "png", "pharaoh"] = Field(
        "json", description="`pharaoh` is the alignment alone; others as in the GET request."
    )
    alignment: bool = Field(False, description="Whether to add the alignment of words to JSON.")


class ScoreParameters(_AskedParameters):
    """The fields of ``POST /score``."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"properties": {"source_text": {"type": "string"}}},
                {
                    "properties": {
                        "source_text": {"type": "array", "maxItems": 1, "minItems": 1},
                        "target_text": {"type": "string"},
                    }
                },
                {
                    "properties": {
                        each: {"type": "array"} for each in ("source_text", "target_text")
                    }
                },
            ]
        }
    )

    source_text: str | list[str] = Field(
        description="A text, or a list of texts (JSON only).", examples=["Zwei Hunde."]
    )
    target_text: str | list[str] = Field(
        description="A text, or a list of as many. Many targets may have one source.",
        examples=["Two dogs."],
    )

    @property
    def pairs(self) -> list[Pair]:
        sources = [self.source_text] if isinstance(self.source_text, str) else self.source_text
        targets = [self.target_text] if isinstance(self.target_text, str) else self.target_text
        if isinstance(self.source_text, str):
            sources = sources * len(targets)
        if len(sources) != len(targets):
            raise BadRequest(
                f"Invalid request: target_text has {len(targets)} texts, "
                f"source_text has {len(sources)}"
            )
        return [Pair(*texts) for texts in zip(sources, targets, strict=True)]


def described_parameters(model: type[BaseModel] | None = None) -> dict[str, Any]:
    """The ``openapi_extra`` of a route about a kept translation."""
    text = {"type": "string"}
    described: list[dict[str, Any]] = [
        {
            "name": "id",
            "in": "path",
            "required": True,
            "schema": text,
            "description": "The `id` that `POST /translate` answered with.",
        },
        {
            "name": "api_key",
            "in": "query",
            "required": False,
            "schema": text,
            "description": "Where the service asks for one.",
        },
    ]
    properties = model.model_json_schema()["properties"] if model is not None else {}
    for name, schema in properties.items():
        description = schema.pop("description", "")
        described.append(
            {
                "name": name,
                "in": "query",
                "required": False,
                "schema": schema,
                "description": description,
            }
        )
    return {"parameters": described}

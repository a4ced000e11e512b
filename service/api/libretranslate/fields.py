"""Request fields of ``POST /translate`` and their conversion to a ``TranslateRequest``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from service.api.errors import BadRequest
from service.api.libretranslate.spelling import read, read_source
from service.api.metering import RequestLimits
from service.api.options import WHOLE, DecodingParameters
from service.api.parameters import Fields, RequiredText
from service.translation.catalogue import Catalogue
from service.translation.markup import PLAIN, Markup
from service.translation.types import TranslateRequest

_FORMATS = ("text", "html")
_HTML = Markup("html")
_LONGEST_SHOWN = 40


class TranslateParameters(DecodingParameters):
    q: RequiredText | Annotated[list[str], Field(min_length=1)] = Field(
        description="The text, or a list of texts (JSON only).",
        examples=["Zwei junge Männer spielen Fußball auf einer Wiese."],
    )
    source: RequiredText = Field(
        description="Language code of the source, in any case; `auto` finds it out for each text.",
        examples=["de"],
    )
    target: RequiredText = Field(
        description="Language code of the target, in any case.", examples=["en"]
    )
    format: Literal["text", "html"] | None = Field(
        None, description="`text` if not given; in `html`, tags stay where they belong."
    )
    alternatives: Annotated[int, Field(ge=0), WHOLE] | None = Field(
        None, description="How many other translations to return."
    )
    api_key: str | None = Field(None, description="If the operator asks for one.")
    model: Annotated[str, Field(min_length=1)] | None = Field(
        None,
        description="A model by its name, see `GET /models`; chosen by languages if not given.",
    )
    attention: bool | None = Field(
        None,
        description="Keep the translation so that its attention can be asked for under `id`.",
    )
    timings: bool | None = Field(None, description="Whether to say where the time went.")
    stream: bool | None = Field(
        None, description="Answer with server-sent events: each sentence as soon as it is done."
    )

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.q,) if isinstance(self.q, str) else tuple(self.q)

    @property
    def hypotheses(self) -> int:
        return max((self.alternatives or 0) + 1, self.num_hypotheses or 1)

    def request(self, offer: Catalogue) -> TranslateRequest:
        return TranslateRequest(
            self.texts,
            read(self.target, offer.targets),
            read_source(self.source, offer.sources),
            self.model,
            self.overrides(self.hypotheses),
            _HTML if self.format == "html" else PLAIN,
            priority=self.priority or "interactive",
        )


def translate_parameters(fields: Fields, limits: RequestLimits) -> TranslateParameters:
    """Parse the fields of ``POST /translate``; raises ``BadRequest``."""
    fields.require(("q", "source", "target"))
    wanted = fields.values.get("format")
    if isinstance(wanted, str) and wanted not in _FORMATS:
        raise BadRequest(f"{wanted[:_LONGEST_SHOWN]} format is not supported")
    parameters = fields.parse(TranslateParameters)
    if (parameters.alternatives or 0) > limits.alternatives:
        raise BadRequest(
            f"Invalid request: alternatives parameter must be at most {limits.alternatives}"
        )
    return parameters


def translate_schema(limits: RequestLimits) -> dict[str, Any]:
    """JSON Schema of the fields, with the bounds in force."""
    schema = TranslateParameters.model_json_schema()
    properties = schema["properties"]
    text, texts = properties["q"]["anyOf"]
    text["maxLength"] = limits.characters
    texts["maxItems"] = limits.texts
    _limit(properties["alternatives"], limits.alternatives)
    for name in ("beam_size", "num_hypotheses"):
        _limit(properties[name], limits.alternatives + 1)
    return schema


def _limit(schema: dict[str, Any], most: int) -> None:
    number = next(choice for choice in schema["anyOf"] if choice["type"] == "integer")
    number["maximum"] = most

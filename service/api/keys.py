"""Routes below ``/admin``: API keys and their usage, for the operator with the admin key."""

from __future__ import annotations

import csv
import io
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from service.api.fields import schemas
from service.api.fields.bounds import NAME_CHARACTERS
from service.api.fields.parameters import read_fields
from service.api.fields.schemas import Answer, answer_of, answer_or
from service.api.responses import Json, refusals
from service.observability.logging import audit
from service.state.keys import KEY_NAME, LARGEST_LIMIT, MOST_PERMITTED, ApiKey, KeyStore, Limits
from service.state.usage import UsageLedger, month_of
from service.translation.decoding import WHOLE

_LONGEST_TIME = 40
"""Characters."""

_CSV = {"text/csv": {"schema": {"type": "string"}}}

_Names = Annotated[
    list[Annotated[str, Field(max_length=NAME_CHARACTERS)]], Field(max_length=MOST_PERMITTED)
]
_Limit = Annotated[int, Field(ge=0, le=LARGEST_LIMIT), WHOLE]


def _time(value: object) -> object:
    """The time of a text, because JSON has none."""
    if not isinstance(value, str):
        return value
    problem = ValueError("should be a time such as 2027-01-31T00:00:00Z")
    if len(value) > _LONGEST_TIME:
        raise problem
    try:
        return datetime.fromisoformat(value)
    except ValueError as error:
        raise problem from error


_Time = Annotated[
    AwareDatetime,
    BeforeValidator(_time),
    Field(examples=["2027-01-31T00:00:00Z"], json_schema_extra={"maxLength": _LONGEST_TIME}),
]


class LimitParameters(BaseModel):
    """Limits of a key; what is left out is the service's default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests_per_minute: _Limit | None = Field(None, description="0 is unlimited.")
    characters_per_month: _Limit | None = Field(None, description="0 is unlimited.")
    bulk: bool = Field(False, description="Whether its requests wait behind those of other keys.")
    models: _Names = Field(
        default=[], description="The only models it may use; all if empty.", examples=[["de-en"]]
    )
    languages: _Names = Field(
        default=[],
        description="The only languages it may use: pairs, and codes, of which it may use all "
        "pairs; all if empty.",
        examples=[["de", "en", "en-fr"]],
    )

    def limits(self) -> Limits:
        return Limits(
            self.requests_per_minute,
            self.characters_per_month,
            self.bulk,
            tuple(self.models),
            tuple(self.languages),
        )


class NewKeyParameters(LimitParameters):
    name: str = Field(
        description="Who it is for.",
        examples=["weblate"],
        json_schema_extra={"pattern": f"^{KEY_NAME}$"},
    )
    expires: _Time | None = Field(None, description="When it stops working.")


class RotationParameters(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    old_expire: _Time | None = Field(
        None, description="When the older keys of the name stop working; left out, at once."
    )
    expires: _Time | None = Field(None, description="When the other key stops working.")


class PeriodParameters(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    month: str | None = Field(
        None,
        max_length=7,
        pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])$",
        description="In UTC; left out, this one.",
    )
    format: Literal["json", "csv"] = "json"

    @property
    def chosen(self) -> str:
        return self.month or month_of(datetime.now(UTC))


class SecretAnswer(Answer):
    created: datetime
    expires: datetime | None


class KeyAnswer(Answer):
    name: str = Field(examples=["weblate"])
    created: datetime
    requests_per_minute: int | None = Field(description="null is the service's default.")
    characters_per_month: int | None = Field(description="null is the service's default.")
    bulk: bool
    models: list[str] = Field(description="Empty is all.")
    languages: list[str] = Field(description="Empty is all.")
    keys: list[SecretAnswer] = Field(description="The keys of the name, the oldest first.")


class KeysAnswer(Answer):
    keys: list[KeyAnswer]


class NewKeyAnswer(Answer):
    name: str = Field(examples=["weblate"])
    key: str = Field(description="Shown this once; only its digest is stored.")


class CallerUsage(Answer):
    name: str = Field(description="Empty for all callers without a key together.")
    characters: int
    documents: int


class MonthAnswer(Answer):
    month: str = Field(examples=["2026-11"])
    usage: list[CallerUsage]


class DayUsage(CallerUsage):
    day: str = Field(examples=["2026-11-28"])


class DaysAnswer(Answer):
    month: str = Field(examples=["2026-11"])
    usage: list[DayUsage]


def create_router(
    keys: KeyStore, usage: UsageLedger, authorize: Callable[[Request], Awaitable[None]]
) -> APIRouter:
    router = APIRouter(prefix="/admin", tags=["keys"])
    name_in_path = {"parameters": [schemas.in_path("name", "Whose key.")]}

    @router.get(
        "/keys", summary="List keys", responses={200: answer_of(KeysAnswer), **_refused(400)}
    )
    async def listed(request: Request) -> Response:
        await authorize(request)
        return Json(KeysAnswer(keys=[_answer(key) for key in await keys.all()]))

    @router.post(
        "/keys",
        summary="Add a key",
        status_code=HTTPStatus.CREATED,
        responses={201: answer_of(NewKeyAnswer), **_refused(400, 409, 413)},
        openapi_extra={"requestBody": schemas.json_body(NewKeyParameters)},
    )
    async def add(request: Request) -> Response:
        await authorize(request)
        new = (await read_fields(request)).parse(NewKeyParameters)
        key = await keys.add(new.name, limits=new.limits(), expires=new.expires)
        audit("key added", "admin", key=new.name)
        return Json(NewKeyAnswer(name=new.name, key=key), HTTPStatus.CREATED)

    @router.put(
        "/keys/{name}",
        summary="Replace the limits of a key",
        status_code=HTTPStatus.NO_CONTENT,
        responses=_refused(400, 404, 413),
        openapi_extra={**name_in_path, "requestBody": schemas.json_body(LimitParameters)},
    )
    async def limit(request: Request) -> Response:
        await authorize(request)
        limits = (await read_fields(request)).parse(LimitParameters).limits()
        await keys.limit(_name(request), lambda _: limits)
        audit("key limited", "admin", key=_name(request))
        return Response(status_code=HTTPStatus.NO_CONTENT)

    @router.post(
        "/keys/{name}/rotate",
        summary="Add another key of a name, and let the older ones expire",
        status_code=HTTPStatus.CREATED,
        responses={201: answer_of(NewKeyAnswer), **_refused(400, 404, 413)},
        openapi_extra={**name_in_path, "requestBody": schemas.json_body(RotationParameters)},
    )
    async def rotate(request: Request) -> Response:
        """Usage and glossaries belong to the name, and stay."""
        await authorize(request)
        wanted = (await read_fields(request)).parse(RotationParameters)
        name = _name(request)
        key = await keys.rotate(name, old_expire=wanted.old_expire, expires=wanted.expires)
        audit("key rotated", "admin", key=name)
        return Json(NewKeyAnswer(name=name, key=key), HTTPStatus.CREATED)

    @router.delete(
        "/keys/{name}",
        summary="Revoke all keys of a name",
        status_code=HTTPStatus.NO_CONTENT,
        responses=_refused(404),
        openapi_extra=name_in_path,
    )
    async def remove(request: Request) -> Response:
        await authorize(request)
        await keys.remove(_name(request))
        audit("key removed", "admin", key=_name(request))
        return Response(status_code=HTTPStatus.NO_CONTENT)

    @router.get(
        "/usage",
        summary="Usage of all keys in a month",
        responses={200: answer_or(MonthAnswer, _CSV), **_refused(400)},
        openapi_extra={"parameters": schemas.query(PeriodParameters)},
    )
    async def usage_in_month(request: Request) -> Response:
        """Usage that is a second old or older."""
        await authorize(request)
        wanted = (await read_fields(request)).parse(PeriodParameters)
        month = wanted.chosen
        used = await usage.written_in(month)
        if wanted.format == "csv":
            rows = [(month, name, a.characters, a.documents) for name, a in used.items()]
            return _csv("month", rows)
        return Json(
            MonthAnswer(
                month=month,
                usage=[
                    CallerUsage(name=name, characters=a.characters, documents=a.documents)
                    for name, a in used.items()
                ],
            )
        )

    @router.get(
        "/usage/days",
        summary="Usage of all keys in a month, by day",
        responses={200: answer_or(DaysAnswer, _CSV), **_refused(400)},
        openapi_extra={"parameters": schemas.query(PeriodParameters)},
    )
    async def usage_by_day(request: Request) -> Response:
        """Days are in UTC. Those more than 400 days ago are not kept."""
        await authorize(request)
        wanted = (await read_fields(request)).parse(PeriodParameters)
        used = await usage.by_day(wanted.chosen)
        rows = [(day, name, a.characters, a.documents) for (name, day), a in used.items()]
        if wanted.format == "csv":
            return _csv("day", rows)
        days = [
            DayUsage(day=day, name=name, characters=characters, documents=documents)
            for day, name, characters, documents in rows
        ]
        return Json(DaysAnswer(month=wanted.chosen, usage=days))

    return router


def _refused(*statuses: int) -> dict[int | str, dict[str, object]]:
    return refusals(*statuses, 403, 429, 500, 503)


def _name(request: Request) -> str:
    return str(request.path_params["name"])


def _answer(key: ApiKey) -> KeyAnswer:
    return KeyAnswer(
        name=key.name,
        created=key.created,
        requests_per_minute=key.limits.requests_per_minute,
        characters_per_month=key.limits.characters_per_month,
        bulk=key.limits.bulk,
        models=list(key.limits.models),
        languages=list(key.limits.languages),
        keys=[SecretAnswer(created=each.created, expires=each.expires) for each in key.secrets],
    )


def _csv(period: str, rows: Iterable[tuple[str, str, int, int]]) -> Response:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow((period, "name", "characters", "documents"))
    writer.writerows(rows)
    return Response(text.getvalue(), media_type="text/csv")

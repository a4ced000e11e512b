"""Settings of the service, read once from ``DRAGOMAN_*`` environment variables.

A variable is ``DRAGOMAN_`` and the upper-case name of a field of ``Settings``. No other module
reads the environment. An unknown variable or an invalid value stops the start with an error that
names it and the values allowed.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from platformdirs import user_data_path
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

PREFIX = "DRAGOMAN_"


class InvalidSetting(Exception):
    """An unknown or invalid setting; the message says what is allowed."""


class Settings(BaseModel):
    """Frozen for the life of the process. The description of each field is its documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bundles: Path = Field(
        default=Path("bundles"),
        description="directory that holds the bundles; unless set or there, one of the user",
    )
    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="address to listen on; `::` is every address, of IPv4 too",
    )
    port: int = Field(
        default=8000, ge=0, le=65535, description="port to listen on; 0 takes a free one"
    )
    models: str = Field(
        default="",
        description="models that are fetched before serving unless bundles translate them already, "
        "separated by commas: pairs such as de-en, firefox:PAIR, hf:REPOSITORY, argos:PAIR",
    )
    prefer: str = Field(
        default="",
        description="names of models, separated by commas, that requests without a model get "
        "before others of the pair; then the best by the FLORES score of its card",
    )
    canary: str = Field(
        default="",
        pattern=r"^$|^[^\s,=]+=[0-9]{1,2}(\.[0-9]+)?(\s*,\s*[^\s,=]+=[0-9]{1,2}(\.[0-9]+)?)*$",
        description="models, as NAME=PERCENT and separated by commas, that get this share of the "
        "requests without a model, by a hash of the text, and otherwise come last in their pair",
    )
    argos_index: str = Field(
        default="https://raw.githubusercontent.com/argosopentech/argospm-index/main/index.json",
        pattern=r"^https?://\S+$",
        description="address of the index of Argos Translate's packages",
    )
    firefox_records: str = Field(
        default="https://firefox.settings.services.mozilla.com/v1/buckets/main/collections/"
        "translations-models-v2/records",
        pattern=r"^https?://\S+$",
        description="address of the index of Firefox's models",
    )
    firefox_attachments: str = Field(
        default="https://firefox-settings-attachments.cdn.mozilla.net/",
        pattern=r"^https?://\S+$",
        description="address of the files of Firefox's models",
    )
    public_url: str = Field(
        default="",
        pattern=r"^(https?://\S+)?$",
        description="address of the service in links to translated files, such as "
        "https://translate.example.org; empty takes the Host header of the request",
    )
    trusted_proxies: str = Field(
        default="",
        description="addresses or networks of proxies, separated by commas, whose X-Forwarded-For "
        "and X-Forwarded-Proto are believed; `*` believes every client",
    )
    precision: Literal["auto", "fp32", "int8", "fp16"] = Field(
        default="auto",
        description="which graphs to run; auto prefers int8 on a CPU and fp16 on a GPU",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto",
        description="where to run; auto takes a GPU if there is one, for bundles that offer more "
        "than int8",
    )
    gpus: str = Field(
        default="all",
        pattern=r"^(all|\d+(,\d+)*)$",
        description="GPUs to run on, one engine for each model on each: all that this process may "
        "see, or their numbers, separated by commas",
    )
    capture: bool = Field(
        default=True,
        description="on GPUs, capture the steps of each batch size into CUDA graphs; false steps "
        "without, slower, should a driver refuse captures",
    )
    resident: bool = Field(
        default=True,
        description="on GPUs, keep the state of beam searches on the device, for bundles that "
        "reproduce their examples there; the host steps constrained searches",
    )
    warm_up_seconds: int = Field(
        default=20,
        ge=0,
        description="on GPUs, how long each engine of a model may run the usual batches before it "
        "serves, at load; what is not reached runs and is captured when it first occurs",
    )
    shortlist: bool = Field(
        default=False,
        description="only write tokens that a bundle's shortlist has for the source; faster, and "
        "sometimes a little worse",
    )
    workers: int = Field(
        default=0,
        ge=0,
        le=64,
        description="processes that speak HTTP and process texts in front of the one that decodes; "
        "0 does all in one",
    )
    model_megabytes: int = Field(
        default=0,
        ge=0,
        description="memory for models on the CPU, which are then loaded by their first request "
        "and unloaded when idle if others need it; 0 loads all models at start",
    )
    cache_megabytes: int = Field(
        default=0,
        ge=0,
        description="memory for keys and values, for each model; 0 takes 2048 on a CPU, and on a "
        "GPU at most 30 % of its free memory",
    )
    threads: int = Field(default=0, ge=0, description="threads of a model; 0 takes every core")
    slots: int = Field(
        default=0,
        ge=0,
        description="sentences decoded together, for each model; 0 takes what suits the precision",
    )
    max_beam_size: int = Field(default=8, ge=1, description="widest beam a request may ask for")
    max_padded_tokens: int = Field(
        default=4096,
        ge=1,
        description="source tokens, padding included, that one iteration encodes",
    )
    max_batch_tokens: int = Field(
        default=0,
        ge=0,
        description="source tokens, padding included, of all sentences decoded together; 0 takes "
        "what suits the device",
    )
    max_queue_tokens: int = Field(
        default=65_536,
        ge=1,
        description="limit of queued work: source tokens of all accepted requests, weighted by "
        "beam size / the bundle's beam size; more are refused with 503",
    )
    max_queue_seconds: float = Field(
        default=2,
        gt=0,
        allow_inf_nan=False,
        description="longest expected wait of an interactive request, half of it for callers with "
        "much in flight; beyond it, 503 with the time to wait in Retry-After",
    )
    max_bulk_queue_seconds: float = Field(
        default=30,
        gt=0,
        allow_inf_nan=False,
        description="the same of requests with priority bulk",
    )
    max_texts: int = Field(default=1024, ge=1, description="texts in one request")
    max_characters: int = Field(default=100_000, ge=1, description="characters in one request")
    max_body_bytes: int = Field(
        default=2 * 1024 * 1024, ge=1024, description="bytes of a request's body"
    )
    max_document_bytes: int = Field(
        default=10 * 1024 * 1024, ge=1024, description="bytes of a document"
    )
    request_seconds: int = Field(
        default=60,
        ge=1,
        description="how long a request may wait and be translated; then it is answered 504",
    )
    result_megabytes: int = Field(
        default=32,
        ge=0,
        description="memory for recent results, which answer repeated requests; 0 keeps none",
    )
    attention_megabytes: int = Field(
        default=32,
        ge=1,
        description="memory for recent translations whose attention may be asked for",
    )
    reload_seconds: int = Field(
        default=10,
        ge=0,
        description="seconds between two checks for added, changed or removed bundles; 0 checks on "
        "SIGHUP and POST /models/reload only",
    )
    state: Path | SecretStr = Field(
        default=Path("state"),
        description="directory for keys, usage, glossaries and documents, made if it is missing; "
        "unless set or beside the bundles, one of the user; or the postgresql:// address of a "
        "database for several replicas, see scaling.md",
    )
    api_keys: Literal["off", "optional", "required"] = Field(
        default="off",
        description="whether callers need a key made by `dragoman keys add`; optional serves "
        "those without one, too, and refuses wrong ones",
    )
    api_key_link: str = Field(
        default="", description="where to get a key; shown to callers without a key"
    )
    oidc_issuer: str = Field(
        default="",
        pattern=r"^((https://[^\s/?#@]+|http://(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?)"
        r"(/[^\s?#]*)?)?$",
        description="address of an OpenID Connect issuer, such as https://login.example.org; with "
        "one, every request needs an access token of it or a key; needs the extra oidc",
    )
    oidc_audience: str = Field(
        default="", description="what access tokens of the issuer name in `aud`"
    )
    admin_key: SecretStr = Field(
        default=SecretStr(""),
        description="what POST /models/reload and /admin ask for; without one both refuse every "
        "caller",
    )
    requests_per_minute: int = Field(
        default=0,
        ge=0,
        description="requests of a key that has no limit of its own, of a token's subject, or of "
        "an address without a key; 0 is unlimited",
    )
    redis: SecretStr | None = Field(
        default=None,
        description="redis:// address of a Valkey or Redis server in which replicas count the "
        "requests a minute of a caller together, and share recent results and translations with "
        "attention; without one each has its own",
    )
    characters_per_month: int = Field(
        default=0,
        ge=0,
        description="characters of a key that has no quota of its own, or of a token's subject; 0 "
        "is unlimited",
    )
    documents: bool = Field(default=True, description="whether files are translated")
    suggestions: bool = Field(
        default=False, description="whether users' better translations are collected"
    )
    tracing: str = Field(
        default="",
        pattern=r"^(https?://\S+)?$",
        description="OTLP address that traces are sent to over HTTP, such as "
        "http://localhost:4318/v1/traces; needs the extra tracing",
    )
    shutdown_seconds: int = Field(
        default=30,
        ge=0,
        description="how long a stopping server waits for requests it has accepted",
    )
    leave_seconds: int = Field(
        default=0,
        ge=0,
        description="how long a server accepts requests after SIGTERM, while /readyz says that "
        "it stops; with a balancer, longer than that takes to notice",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least severe line that is logged"
    )
    log_format: Literal["console", "json"] = Field(
        default="console", description="shape of log lines"
    )

    @field_validator("state", mode="before")
    @classmethod
    def _addressed(cls, place: object) -> object:
        if not isinstance(place, str):
            return place
        scheme, separator, rest = place.partition("://")
        if not separator:
            return Path(place)
        # PostgreSQL's own programs accept both.
        if scheme not in {"postgresql", "postgres"}:
            raise ValueError("no other database is supported")
        # An address contains a password.
        return SecretStr(f"postgresql://{rest}")

    # Validators run from the last to the first.
    @field_validator("bundles", "state", mode="before")
    @classmethod
    def _named(cls, directory: object) -> object:
        # An empty path would be the current directory.
        if directory == "":
            raise ValueError("a directory has a name")
        return directory

    @property
    def state_directory(self) -> Path | None:
        """The directory of the state; ``None`` if that is in a database."""
        return self.state if isinstance(self.state, Path) else None

    @field_validator("canary")
    @classmethod
    def _of_one_whole(cls, canary: str) -> str:
        shares = _named_shares(canary)
        if len(dict(shares)) < len(shares) or sum(percent for _, percent in shares) > 100:
            raise ValueError("each model has one share, and all together have at most 100")
        return canary

    @field_validator("trusted_proxies")
    @classmethod
    def _of_networks(cls, proxies: str) -> str:
        # uvicorn compares anything else with the client's address as text, so trusts no proxy.
        if proxies != "*":
            for proxy in filter(None, map(str.strip, proxies.split(","))):
                ip_network(proxy)
        return proxies

    @model_validator(mode="after")
    def _for_an_audience(self) -> Settings:
        # A token for another service of the issuer must not be accepted here.
        if bool(self.oidc_issuer) != bool(self.oidc_audience):
            raise ValueError(
                f"{PREFIX}OIDC_ISSUER and {PREFIX}OIDC_AUDIENCE belong together; "
                "set both or neither"
            )
        return self

    @property
    def keys(self) -> Literal["off", "optional", "required"]:
        """Whether callers need a key; an access token of the issuer, if there is one, replaces
        it."""
        return "required" if self.oidc_issuer else self.api_keys

    @property
    def preferred(self) -> tuple[str, ...]:
        """The names in ``prefer``."""
        return tuple(self.prefer.replace(",", " ").split())

    @property
    def canaries(self) -> dict[str, float]:
        """The percentages in ``canary`` by model."""
        return dict(_named_shares(self.canary))

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] = os.environ, **overrides: Any
    ) -> Settings:
        """Read every ``DRAGOMAN_`` variable; ``overrides`` that are not ``None`` win over them."""
        values: dict[str, Any] = {}
        for variable in sorted(environment):
            if variable.startswith(PREFIX):
                values[_field_of(variable)] = environment[variable]
        values |= {name: value for name, value in overrides.items() if value is not None}
        if not _here("bundles"):
            values.setdefault("bundles", users_directory("bundles"))
            if not _here("state"):
                values.setdefault("state", users_directory("state"))
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            if not first["loc"]:
                raise InvalidSetting(str(first["ctx"]["error"])) from error
            name = str(first["loc"][0])
            shown = "" if _is_secret(name) else f" is {str(values[name])!r}; it"
            raise InvalidSetting(
                f"{PREFIX}{name.upper()}{shown} must be {_allowed(name)}"
            ) from error


def _here(name: str) -> bool:
    """Whether the working directory has the default directory of a setting, as a clone has."""
    return Path(str(Settings.model_fields[name].default)).is_dir()


def users_directory(name: str) -> Path:
    """The directory of the user for bundles or state: of an installation that is no clone."""
    return user_data_path("dragoman", appauthor=False) / name


def allows_colours(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the user wants colours on a terminal, see no-color.org."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def _field_of(variable: str) -> str:
    name = variable.removeprefix(PREFIX).lower()
    if name in Settings.model_fields and variable == PREFIX + name.upper():
        return name
    # The common prefix would make all names similar.
    near = difflib.get_close_matches(name, Settings.model_fields, n=1, cutoff=0.7)
    known = [PREFIX + field.upper() for field in near or Settings.model_fields]
    advice = f"did you mean {known[0]}?" if near else f"known are {', '.join(known)}"
    raise InvalidSetting(f"{variable} is not a setting; {advice}")


def _named_shares(text: str) -> list[tuple[str, float]]:
    """The models in ``canary`` with their percentages."""
    shares = (each.partition("=") for each in text.split(",") if each)
    return [(name.strip(), float(percent)) for name, _, percent in shares]


def _choices(annotation: object) -> tuple[str, ...]:
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _is_secret(name: str) -> bool:
    """Whether a setting may have a password, which no message repeats."""
    annotation = Settings.model_fields[name].annotation
    return SecretStr in (annotation, *get_args(annotation))


def _allowed(name: str) -> str:
    field = Settings.model_fields[name]
    if name == "state":
        return "a directory, or postgresql://USER:PASSWORD@HOST/DATABASE"
    if choices := _choices(field.annotation):
        return "one of " + ", ".join(choices)
    if field.annotation is bool:
        return "true or false"
    if name == "oidc_issuer":
        return "empty or an https:// address without a query; http:// only of this machine"
    if name == "canary":
        return (
            "as NAME=5, a percentage below 100, separated by commas; each name once, and together "
            "at most 100"
        )
    if name == "gpus":
        return "all, or numbers of GPUs, separated by commas"
    if name == "trusted_proxies":
        return "addresses or networks such as 10.0.0.0/8, separated by commas, or *"
    if any(getattr(bound, "pattern", None) for bound in field.metadata):
        address = "an address that begins with http:// or https://"
        return f"empty or {address}" if field.default == "" else address
    if field.annotation is float:
        return "a number above 0"
    if field.annotation is not int:
        return "text that is not empty"
    bounds = {
        word: getattr(bound, attribute)
        for bound in field.metadata
        for attribute, word in (("ge", "at least"), ("le", "at most"))
        if hasattr(bound, attribute)
    }
    return "a whole number, " + " and ".join(f"{word} {bound}" for word, bound in bounds.items())

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from service.settings import InvalidSetting, Settings


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = Settings.from_environment({"PATH": "/bin", "HOME": "/"})
    assert settings == Settings()
    assert (settings.host, settings.port, settings.bundles) == ("127.0.0.1", 8000, Path("bundles"))


def test_a_variable_sets_the_field_of_its_name() -> None:
    environment = {"DRAGOMAN_PORT": "9000", "DRAGOMAN_BUNDLES": "b", "DRAGOMAN_PRECISION": "fp32"}
    settings = Settings.from_environment(environment)
    assert (settings.port, settings.bundles, settings.precision) == (9000, Path("b"), "fp32")


def test_an_override_wins_unless_it_is_none() -> None:
    settings = Settings.from_environment({"DRAGOMAN_PORT": "1"}, port="2", host=None)
    assert (settings.port, settings.host) == (2, "127.0.0.1")


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("DRAGOMAN_MAX_TEXTS", "many", "is 'many'; it must be a whole number, at least 1"),
        ("DRAGOMAN_MAX_TEXTS", "0", "is '0'; it must be a whole number, at least 1"),
        ("DRAGOMAN_MAX_TEXTS", "", "is ''; it must be a whole number, at least 1"),
        (
            "DRAGOMAN_PORT",
            "70000",
            "is '70000'; it must be a whole number, at least 0 and at most 65535",
        ),
        ("DRAGOMAN_HOST", "", "is ''; it must be text that is not empty"),
        ("DRAGOMAN_STATE", "", "is ''; it must be text that is not empty"),
        (
            "DRAGOMAN_TRACING",
            "localhost:4318",
            "is 'localhost:4318'; it must be empty or an address that begins with http:// or "
            "https://",
        ),
        ("DRAGOMAN_PRECISION", "fp8", "is 'fp8'; it must be one of auto, fp32, int8, fp16"),
        (
            "DRAGOMAN_GPUS",
            "one",
            "is 'one'; it must be all, or numbers of GPUs, separated by commas",
        ),
        ("DRAGOMAN_LOG_FORMAT", "xml", "is 'xml'; it must be one of console, json"),
        (
            "DRAGOMAN_ARGOS_INDEX",
            "",
            "is ''; it must be an address that begins with http:// or https://",
        ),
        *(
            (
                "DRAGOMAN_TRUSTED_PROXIES",
                proxies,
                f"is {proxies!r}; it must be addresses or networks such as 10.0.0.0/8, separated "
                "by commas, or *",
            )
            for proxies in ("proxy", "10.0.0.0/99", "10.0.0.1/8", "127.0.0.1, *")
        ),
    ],
)
def test_invalid_value_is_named_with_the_valid_ones(
    variable: str, value: str, sentence: str
) -> None:
    with pytest.raises(InvalidSetting) as caught:
        Settings.from_environment({variable: value})
    assert str(caught.value) == f"{variable} {sentence}"


@pytest.mark.parametrize("proxies", ["", "*", "127.0.0.1", "10.0.0.0/8, ::1 ,2001:db8::/32"])
def test_proxies_are_addresses_and_networks(proxies: str) -> None:
    settings = Settings.from_environment({"DRAGOMAN_TRUSTED_PROXIES": proxies})
    assert settings.trusted_proxies == proxies


@pytest.mark.parametrize(
    ("variable", "advice"),
    [
        ("DRAGOMAN_SLOT", "did you mean DRAGOMAN_SLOTS?"),
        ("DRAGOMAN_port", "did you mean DRAGOMAN_PORT?"),
        ("DRAGOMAN_GPU_MEMORY_FRACTION", "known are DRAGOMAN_BUNDLES, DRAGOMAN_HOST"),
    ],
)
def test_an_unknown_variable_is_refused_by_name(variable: str, advice: str) -> None:
    with pytest.raises(InvalidSetting, match=f"^{variable} is not a setting; ") as caught:
        Settings.from_environment({variable: "1"})
    assert advice in str(caught.value)


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Settings().port = 1


def test_every_setting_is_described() -> None:
    assert all(field.description for field in Settings.model_fields.values())

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from service.settings import InvalidSetting, Settings
from tests.support.fitting import fits


def test_variables_set_fields_unless_they_are_overridden() -> None:
    assert Settings.from_environment({"PATH": "/bin", "HOME": "/"}) == Settings()
    environment = {"DRAGOMAN_PORT": "9000", "DRAGOMAN_BUNDLES": "b", "DRAGOMAN_PRECISION": "fp32"}
    settings = Settings.from_environment(environment, port="2", host=None)
    assert (settings.host, settings.port, settings.bundles) == ("127.0.0.1", 2, Path("b"))
    assert settings.precision == "fp32"
    with pytest.raises(ValidationError):
        settings.port = 1
    assert all(field.description for field in Settings.model_fields.values())
    for proxies in ("", "*", "127.0.0.1", "10.0.0.0/8, ::1 ,2001:db8::/32"):
        trusted = Settings.from_environment({"DRAGOMAN_TRUSTED_PROXIES": proxies})
        assert trusted.trusted_proxies == proxies


def test_outside_of_a_clone_bundles_and_state_are_those_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    settings = Settings.from_environment({})
    assert (settings.bundles.name, settings.state.name) == ("bundles", "state")
    assert {settings.bundles.parent, settings.state.parent} == {tmp_path / "data" / "dragoman"}
    (tmp_path / "state").mkdir()
    assert Settings.from_environment({}).state == Path("state")
    (tmp_path / "bundles").mkdir()
    assert Settings.from_environment({}) == Settings()


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("DRAGOMAN_MAX_TEXTS", "many", "a whole number, at least 1"),
        ("DRAGOMAN_MAX_TEXTS", "0", "a whole number, at least 1"),
        ("DRAGOMAN_MAX_TEXTS", "", "a whole number, at least 1"),
        ("DRAGOMAN_PORT", "70000", "a whole number, at least 0 and at most 65535"),
        ("DRAGOMAN_HOST", "", "text that is not empty"),
        ("DRAGOMAN_BUNDLES", "", "text that is not empty"),
        *(
            ("DRAGOMAN_MAX_QUEUE_SECONDS", seconds, "a number above 0")
            for seconds in ("0", "nan", "inf", "long")
        ),
        ("DRAGOMAN_TRACING", "a:4318", "empty or an address that begins with http:// or https://"),
        ("DRAGOMAN_PRECISION", "fp8", "one of auto, fp32, int8, fp16"),
        ("DRAGOMAN_GPUS", "one", "all, or numbers of GPUs, separated by commas"),
        *(
            ("DRAGOMAN_CANARY", canary, "as NAME=5, a percentage below 100, separated by com…")
            for canary in (
                "next",
                "next=",
                "next=100",
                "next=5;o=5",
                "a=5,a=6",
                "a=60,b=60",
                "a=\u0665",
            )
        ),
        ("DRAGOMAN_LOG_FORMAT", "xml", "one of console, json"),
        ("DRAGOMAN_ARGOS_INDEX", "", "an address that begins with http:// or https://"),
        *(
            ("DRAGOMAN_TRUSTED_PROXIES", proxies, "addresses or networks such as 10.0.0.0/8, sep…")
            for proxies in ("proxy", "10.0.0.0/99", "10.0.0.1/8", "127.0.0.1, *")
        ),
    ],
)
def test_invalid_value_is_named_with_the_valid_ones(
    variable: str, value: str, sentence: str
) -> None:
    with pytest.raises(InvalidSetting) as caught:
        Settings.from_environment({variable: value})
    assert fits(str(caught.value), f"{variable} is {value!r}; it must be {sentence}")


@pytest.mark.parametrize("place", ["mysql://u:secret@h/db", "sqlite:///secret", ""])
def test_another_database_is_refused_without_a_word_of_its_password(place: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        Settings.from_environment({"DRAGOMAN_STATE": place})
    assert str(caught.value) == (
        "DRAGOMAN_STATE must be a directory, or postgresql://USER:PASSWORD@HOST/DATABASE"
    )


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_postgresql_has_two_names(scheme: str) -> None:
    state = Settings.from_environment({"DRAGOMAN_STATE": f"{scheme}://u:p@h/db"}).state
    assert state == SecretStr("postgresql://u:p@h/db")


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

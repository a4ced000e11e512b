"""Contract tests: Schemathesis checks the service against its OpenAPI document."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import httpx
import pytest

from benchmarks.server import serving
from tests.support.keys import add_key
from tests.support.programs import ROOT, python

BUNDLES = ROOT / "bundles"
CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
KEY, ADMIN_KEY = "a-key", "operator"
MANY = 3_000
REPLACED = "positive_data_acceptance,negative_data_rejection"
"""Checks replaced by those of ``openapi_hooks``, which permit known exceptions."""

pytestmark = pytest.mark.slow


def schemathesis(url: str, directory: Path, *arguments: str, without: str = REPLACED) -> str:
    """Run all checks on deterministic cases; returns the report."""
    command = ["-m", "schemathesis.cli", "--config-file", str(CONFIGURATION)]
    command += ["run", f"{url}/openapi.json"]
    command += ["--checks", "all", "--exclude-checks", without, "--continue-on-failure"]
    command += ["--generation-deterministic", "--no-color", "--request-timeout", "60"]
    # A guard against hanging requests, which a busy machine does not reach.
    command += ["--max-response-time", "60"]
    command += ["--generation-with-security-parameters", "false", *arguments]
    environment = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "tests.contract.openapi_hooks",
        "PYTHONPATH": str(ROOT),
    }
    return python(*command, cwd=directory, env=environment)


def test_thousands_of_requests_are_answered_as_documented(tmp_path: Path) -> None:
    """No 5xx, no undocumented status, type or header, nothing refused or accepted by surprise."""
    settings = {"SLOTS": "16", "RESULT_MEGABYTES": "64", "ADMIN_KEY": ADMIN_KEY}
    with serving(BUNDLES, SUGGESTIONS="true", **settings) as (url, _):
        report = schemathesis(
            url,
            tmp_path,
            *("--header", f"Authorization: Bearer {ADMIN_KEY}"),
            *("--max-examples", "8", "--phases", "examples,coverage,fuzzing"),
        )
        assert httpx.get(f"{url}/readyz").status_code == 200
    cases = re.search(r"(\d+) generated", report)
    assert cases is not None
    assert int(cases[1]) >= MANY


def test_keys_are_needed_on_the_operations_that_document_them(tmp_path: Path) -> None:
    asyncio.run(add_key(tmp_path, "tester", KEY))
    settings = {"STATE": str(tmp_path), "API_KEYS": "required", "ADMIN_KEY": ADMIN_KEY}
    with serving(BUNDLES, SLOTS="16", SUGGESTIONS="true", **settings) as (url, _):
        document = httpx.get(f"{url}/openapi.json").json()
        for path, item in document["paths"].items():
            for method, operation in item.items():
                asked = f"{method} {path}"
                query = {"langpair": "de|en"} if asked == "get /translate" else {}
                without = httpx.request(method, url + path, params=query)
                wrong = httpx.request(
                    method, url + path, params=query, headers={"X-API-Key": "wrong"}
                )
                if not operation["security"]:
                    assert {without.status_code, wrong.status_code} <= {200, 404}, asked
                    continue
                assert re.search("an API key|the admin key", without.text), asked
                assert wrong.status_code == (401 if path == "/imme" else 403), asked
        schemathesis(
            url,
            tmp_path,
            *("--header", f"Authorization: Bearer {KEY}", "--header", f"X-API-Key: {ADMIN_KEY}"),
            *("--max-examples", "5", "--phases", "fuzzing"),
            # It requires 401 or 403, but LibreTranslate's clients expect 400.
            without=f"{REPLACED},ignored_auth",
        )

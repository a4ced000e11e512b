"""Fixtures of the web page tests: browser, service and page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.server import serving
from tests.support.programs import ROOT

if TYPE_CHECKING:
    from tests.browser.support import Visit, Visitor

# Imports are inside the fixtures: a conftest cannot be skipped if playwright is missing.


# Not session scope: while Playwright waits, no other test of this thread may run asyncio.
@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    from tests.browser.support import ARGUMENTS, browser_path, sync_api

    path = browser_path()
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def address(browser: Any) -> Iterator[str]:
    """Address of the service; it starts only if there is a browser."""
    with serving(ROOT / "bundles", RESULT_MEGABYTES="64") as (url, _):
        yield f"{url}/"


@pytest.fixture
def visitor(browser: Any, address: str) -> Iterator[Visitor]:
    """A factory of visits; options are those of a Playwright context."""
    from tests.browser.support import Visit

    visits: list[Visit] = []

    def visit(**options: Any) -> Visit:
        context = browser.new_context(**{"color_scheme": "light", **options})
        visits.append(Visit(context.new_page(), address))
        return visits[-1]

    yield visit
    for each in visits:
        each.page.context.close()
    for each in visits:
        each.leave()


@pytest.fixture
def visit(visitor: Visitor) -> Visit:
    return visitor(viewport={"width": 1280, "height": 900})

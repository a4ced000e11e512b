"""Writes the screenshots in ``docs/screenshots``: ``python -m tests.browser.screenshots``.

Not a test: screenshots differ between machines by their fonts. Needs Playwright, a browser, Pillow.
"""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image

from benchmarks.server import serving
from tests.browser.support import ARGUMENTS, Visit, browser_path, sync_api
from tests.support.programs import ROOT

PICTURES = ROOT / "docs" / "screenshots"
TEXT = "Zwei junge Männer spielen Fußball auf einer grünen Wiese."
COLOURS = 256


def light(visit: Visit) -> None:
    visit.list_alternatives()
    sync_api.expect(visit.find("#heads .head").first).to_be_visible()
    visit.find("#target-words .word").nth(2).hover()


def search(visit: Visit) -> None:
    visit.find("input[name=view][value=search]").locator("..").click()
    visit.find("#tree .node.wins").nth(1).hover()


SCENES = {"light": light, "search": search}


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with (
        serving(ROOT / "bundles") as (url, _),
        sync_api.sync_playwright() as playwright,
    ):
        path = browser_path()
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        for name, scene in SCENES.items():
            context = browser.new_context(
                reduced_motion="reduce",
                color_scheme="light",
                viewport={"width": 1280, "height": 900},
            )
            visit = Visit(context.new_page(), f"{url}/")
            visit.open(f"#source=auto&target=en&text={TEXT}")
            visit.find("#why").click()
            visit.page.mouse.move(0, 0)
            sync_api.expect(visit.find("#heads .head").first).to_be_visible()
            scene(visit)
            save(PICTURES / f"{name}.png", visit.page.screenshot(full_page=True))
            context.close()
        browser.close()


def save(path: Path, png: bytes) -> None:
    """Save with a palette, which reduces the size to a third."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()

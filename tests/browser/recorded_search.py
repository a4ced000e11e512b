"""A recorded search in the format of ``GET /translations/{id}/search``, with every kind of end."""

from __future__ import annotations

import json
from typing import Any

from tests.browser.support import Visit, sync_api

expect = sync_api.expect


def candidate(id: int, parent: int, piece: str, score: float, fate: str) -> dict[str, Any]:
    values = {"token": id, "log_probability": -0.5, "sum": score * 2, "score": score}
    return {"id": id, "parent": parent, "piece": piece, "fate": fate} | values


SEARCH = {
    "source": ["▁Zwei", "▁Männer", "</s>"],
    "steps": [
        {
            "candidates": [
                candidate(1, 0, "▁Two", -0.1, "kept"),
                candidate(2, 0, "▁A", -0.7, "kept"),
                candidate(3, 0, "▁Some", -1.9, "pruned"),
            ]
        },
        {
            "candidates": [
                candidate(4, 1, "▁men", -0.2, "kept"),
                candidate(5, 1, "▁boys", -0.9, "kept"),
                candidate(6, 2, "▁man", -1.4, "pruned"),
            ]
        },
        {
            "candidates": [
                candidate(7, 4, "</s>", -0.25, "finished"),
                candidate(8, 4, ".", -0.8, "kept"),
                candidate(9, 5, "</s>", -0.95, "dropped"),
            ]
        },
    ],
    "winner": 7,
}


def show_search(visit: Visit) -> None:
    """Open the view of the search, and answer its requests with the recorded one."""
    body = json.dumps(SEARCH)
    visit.page.route(
        "**/search?*", lambda route: route.fulfill(body=body, content_type="application/json")
    )
    visit.explain()
    visit.find("input[name=view][value=search]").locator("..").click()
    expect(visit.find("#search")).to_be_visible()
    expect(visit.find("#tree .node")).to_have_count(9)

"""JSON as every endpoint of the root writes it."""

from __future__ import annotations

import json
from typing import Any

from fastapi.responses import JSONResponse


class Json(JSONResponse):
    """Compact UTF-8. What is no Unicode, an echoed lone surrogate, is escaped instead of fatal."""

    def render(self, content: Any) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")


def error_body(message: str) -> dict[str, str]:
    """The shape of every refusal of the root: LibreTranslate's."""
    return {"error": message}

"""LibreTranslate-compatible API: parameters, answers and errors.

Unknown fields are ignored, as clients also send fields of other servers.
"""

from __future__ import annotations

from service.api.libretranslate.describing import describe
from service.api.libretranslate.router import create_router
from service.api.libretranslate.settings import Frontend

__all__ = ["Frontend", "create_router", "describe"]

"""LibreTranslate's contract: its parameters, its answers, its errors. Decides nothing.

Fields nobody knows are ignored, as clients send some that belong to other servers.
"""

from __future__ import annotations

from service.api.libretranslate.describing import describe
from service.api.libretranslate.router import create_router
from service.api.libretranslate.settings import Frontend

__all__ = ["Frontend", "create_router", "describe"]

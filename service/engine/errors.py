"""Exceptions of the decoding engine: refused sentences, backend failures, shutdown."""

from __future__ import annotations

_QUOTED = 30
"""Characters of a sentence that an error quotes, so that its writer finds it."""


class EngineError(Exception):
    """Base of all engine errors."""


class SentenceTooLong(EngineError):
    """The sentence exceeds the model's source length. Sentences are never truncated."""

    def __init__(self, length: int, limit: int, undivided: str = "") -> None:
        """``undivided`` is the sentence if it could not be divided; the message quotes it."""
        reason = f"sentence has {length} tokens; the model reads at most {limit}"
        if undivided:
            quoted = undivided[:_QUOTED] + "…" * (len(undivided) > _QUOTED)
            reason += f', and no blank or clause mark divides "{quoted}"'
        super().__init__(reason)
        self.length = length
        self.limit = limit


class BeamTooWide(EngineError):
    """The beam is wider than the number of hypotheses that the model's cache holds."""

    def __init__(self, beam_size: int, limit: int) -> None:
        super().__init__(f"beam_size is {beam_size}; this model is loaded for at most {limit}")
        self.beam_size = beam_size
        self.limit = limit


class ImpossiblePrefix(EngineError):
    """No translation can have this target prefix or this minimum length."""


class BackendFailed(EngineError):
    """The model failed on an iteration that included this sentence. A retry may work."""


class EngineStopped(EngineError):
    """The engine is shutting down or has died. A retry on this engine will not work."""

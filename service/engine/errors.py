"""Everything the engine can refuse or fail to do."""

from __future__ import annotations


class EngineError(Exception):
    """Base of all engine errors."""


class SentenceTooLong(EngineError):
    """The model cannot read this sentence whole, and nothing is cut silently."""

    def __init__(self, length: int, limit: int) -> None:
        super().__init__(f"sentence has {length} tokens; the model reads at most {limit}")
        self.length = length
        self.limit = limit


class BeamTooWide(EngineError):
    """The cache of this model holds fewer hypotheses a sentence than were asked for."""

    def __init__(self, beam_size: int, limit: int) -> None:
        super().__init__(f"beam_size is {beam_size}; this model is loaded for at most {limit}")
        self.beam_size = beam_size
        self.limit = limit


class ImpossiblePrefix(EngineError):
    """No translation begins as was asked, or is as long."""


class BackendFailed(EngineError):
    """The model failed on an iteration this sentence was part of. Trying again may work."""


class EngineStopped(EngineError):
    """The engine is shutting down or has died. Trying again here will not work."""

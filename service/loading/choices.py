"""Chooses the variants of a model's graphs by measurement, once for each machine and bundle.

Choices are kept in a file of the state directory, if there is one, and if no other program used the
processor. Otherwise they are measured when a model is loaded, in less than a second.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnxruntime
from pydantic import TypeAdapter, ValidationError

from models.bundle.manifest import Manifest, Precision
from service.runtime import processor
from service.runtime.measuring import TimeBudget, measure
from service.runtime.onnx import OnnxBackend
from service.runtime.sessions import overflows
from service.runtime.variants import Choice, Variant, candidates, fastest

logger = logging.getLogger(__name__)

FILE_NAME = "variants.json"
_MOST = 200
"""Choices in the file; the oldest give way."""
_KEPT = TypeAdapter(dict[str, Choice])


@dataclass(frozen=True, slots=True)
class Chooser:
    """Chooses for one bundle and precision."""

    manifest: Manifest
    precision: Precision
    state: Path | None

    def __call__(self, backend: OnnxBackend, usual: Variant) -> Choice:
        """The kept choice, or the one that is measured and kept. Blocks."""
        choice = self._kept().get(self._key(usual))
        if choice is None:
            times, _, others = processor.timed(lambda: self.times(backend, usual))
            choice = fastest(usual, times)
            # Other programs distort the measurement, so such a choice is used but not kept.
            if others is None or others <= processor.QUIET_CORES:
                self.keep(usual, choice)
        logger.info("steps of %s run with %s", self.manifest.name, choice)
        return choice

    def times(
        self, backend: OnnxBackend, usual: Variant, budget: TimeBudget | None = None
    ) -> dict[int, Mapping[Variant, float]]:
        """Seconds of a step by rows and variant, see ``measure``; empty if there is no choice."""
        variants = compared(self.manifest, self.precision, usual)
        if len(variants) == 1:
            return {}
        manifest = self.manifest
        beam, token = manifest.decoding.beam_size, manifest.special_ids.eos
        return measure(backend, beam, token, variants, budget)

    def keep(self, usual: Variant, choice: Choice) -> None:
        """Keep a choice instead of ``usual``, if there is a state directory."""
        if self.state is None or not self.state.is_dir():
            return
        kept = self._kept()
        kept.pop(self._key(usual), None)
        newest = dict([*kept.items(), (self._key(usual), choice)][-_MOST:])
        path = self.state / FILE_NAME
        try:
            partial = path.with_suffix(".partial")
            partial.write_bytes(_KEPT.dump_json(newest, indent=1))
            partial.replace(path)
        except OSError as error:
            logger.warning("%s cannot be written: %s", path, error)

    def _key(self, usual: Variant) -> str:
        bundle = self.manifest.name, self.manifest.version, self.precision, str(usual)
        return " · ".join([processor.description(), f"ORT {onnxruntime.__version__}", *bundle])

    def _kept(self) -> dict[str, Choice]:
        if self.state is None:
            return {}
        path = self.state / FILE_NAME
        try:
            return _KEPT.validate_json(path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError) as error:
            logger.warning("%s cannot be used, so variants are measured again: %s", path, error)
            return {}


def compared(manifest: Manifest, precision: Precision, usual: Variant) -> list[Variant]:
    """The variants that a precision has on this processor; ``usual`` first."""
    kernels = (
        precision == "int8"
        and platform.machine() in ("x86_64", "AMD64")
        and not overflows(manifest)
    )
    return candidates(usual, processor.cores(), kernels=kernels)

"""Schedules of learning rate and label smoothing; steps are counted from one."""

from __future__ import annotations

import math
from collections.abc import Callable

from training.recipe import Recipe

Schedule = Callable[[int], float]


def noam(width: int, warmup: int) -> Schedule:
    """W^−½ · min(step^−½, step · warmup^−1½) (equation 3)."""
    return lambda step: width**-0.5 * min(step**-0.5, step * warmup**-1.5)


def inverse_sqrt(peak: float, warmup: int) -> Schedule:
    """The shape of ``noam``, with a given peak."""
    return lambda step: peak * min((warmup / step) ** 0.5, step / warmup)


def linear(peak: float, warmup: int, steps: int) -> Schedule:
    """Linear warm-up to the peak, then linear decay to zero after the last step."""
    return lambda step: peak * min(step / warmup, (steps + 1 - step) / max(1, steps + 1 - warmup))


def cosine(peak: float, warmup: int, steps: int) -> Schedule:
    """Linear warm-up to the peak, then a half-cosine decay."""

    def rate(step: int) -> float:
        if step <= warmup:
            return peak * step / warmup
        progress = (step - warmup) / max(1, steps + 1 - warmup)
        return peak * 0.5 * (1.0 + math.cos(math.pi * progress))

    return rate


def constant(peak: float, warmup: int) -> Schedule:
    return lambda step: peak * min(1.0, step / warmup)


def wsd(peak: float, warmup: int, decay: int, steps: int) -> Schedule:
    """Warm-up, stable, decay (Hu et al., 2024, section 4).

    The rate rises to the peak, stays constant, and falls to zero in the last ``decay`` steps along
    1 − √progress (Hägele et al., 2024, section 3).
    """

    def rate(step: int) -> float:
        progress = (step - (steps - decay)) / (decay + 1)
        return peak * min(1.0, step / warmup) * (1.0 - math.sqrt(max(0.0, progress)))

    return rate


def schedule_of(recipe: Recipe) -> Schedule:
    optimisation, steps = recipe.optimisation, recipe.budget.steps
    warmup = max(1, optimisation.warmup)
    if optimisation.schedule == "noam":
        return noam(recipe.network.width, warmup)
    peak = optimisation.peak_learning_rate
    assert peak is not None, "a recipe with any other schedule has one"
    match optimisation.schedule:
        case "inverse_sqrt":
            return inverse_sqrt(peak, warmup)
        case "linear":
            return linear(peak, warmup, steps)
        case "cosine":
            return cosine(peak, warmup, steps)
        case "constant":
            return constant(peak, warmup)
        case "wsd":
            return wsd(peak, warmup, optimisation.decay, steps)


def smoothing_of(recipe: Recipe) -> Schedule:
    """Label smoothing by step."""
    optimisation, stable = recipe.optimisation, stable_steps(recipe)
    usual, last = optimisation.label_smoothing, optimisation.decay_label_smoothing
    return lambda step: usual if last is None or step <= stable else last


def stable_steps(recipe: Recipe) -> int:
    """The last step before the decay of ``wsd``, from which a run can be extended; else zero."""
    decay = recipe.optimisation.decay
    return max(0, recipe.budget.steps - decay) if decay else 0

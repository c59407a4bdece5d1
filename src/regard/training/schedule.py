"""The learning rate at a step: a linear warm-up to the peak, then a decay.

`inverse_sqrt` is the paper's (Vaswani et al. 2017, equation 3): d^-0.5 min(step^-0.5, step warmup^-1.5), whose peak is
(d warmup)^-0.5, 7.0e-4 for base. `cosine` and `linear` end near zero at the last step.
"""

from __future__ import annotations

from math import cos, pi

from regard.training.config import TrainConfig


def learning_rate(config: TrainConfig, step: int) -> float:
    """Return the learning rate of step 1, 2, ... of the run."""
    peak, warmup = config.learning_rate, config.warmup_steps
    if step < warmup:
        return peak * step / warmup
    if config.schedule == "inverse_sqrt":
        return peak * (max(warmup, 1) / step) ** 0.5
    done = (step - warmup) / (config.steps - warmup + 1)
    if config.schedule == "cosine":
        return peak * (1 + cos(pi * done)) / 2
    return peak * (1 - done) if config.schedule == "linear" else peak

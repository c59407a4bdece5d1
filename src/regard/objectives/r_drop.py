"""R-Drop (Liang et al. 2021): a batch passes twice under different dropout, and the two predictions are pulled together.

With predictions p and q, a (KL(p|q) + KL(q|p)) / 4 is added to the mean of their two losses: a strong regulariser for small data,
for twice the time a step. Differs from the paper in a factor of two over all: losses are averaged, so that they stay comparable.
"""

from __future__ import annotations

from torch import Tensor

from regard.core.errors import UserError


def check_r_drop(r_drop: float) -> None:
    if not 0 <= r_drop < float("inf"):
        raise UserError(f"objective.r_drop={r_drop} must be 0 (off) or more, such as 5.")


def divergence(one_NC: Tensor, other_NC: Tensor, counted_N: Tensor) -> Tensor:
    """(KL(p|q) + KL(q|p)) / 4 of two rows of logits, summed over those that count."""
    p, q = one_NC.float().log_softmax(-1), other_NC.float().log_softmax(-1)
    return ((p.exp() - q.exp()) * (p - q)).masked_fill(~counted_N[..., None], 0.0).sum() / 4

"""R-Drop (Liang et al. 2021): pass a batch twice with different dropout and penalise the divergence of the two predictions.

With predictions p and q, a (KL(p|q) + KL(q|p)) / 4 is added to the mean of their two losses: a strong regulariser for small data,
at twice the time of a step. Differs from the paper by a factor of two: losses are averaged, so that they stay comparable.
"""

from __future__ import annotations

from torch import Tensor

from regard.core.errors import UserError


def check_r_drop(r_drop: float) -> None:
    """Raise unless the weight is 0 or more."""
    if not 0 <= r_drop < float("inf"):
        raise UserError(f"objective.r_drop={r_drop} must be 0 (off) or more, such as 5.")


def r_drop_divergence(one_NC: Tensor, other_NC: Tensor, counted_N: Tensor) -> Tensor:
    """Return (KL(p|q) + KL(q|p)) / 4 of two sets of logits, summed over the rows where `counted_N` is true."""
    p, q = one_NC.float().log_softmax(-1), other_NC.float().log_softmax(-1)
    return ((p.exp() - q.exp()) * (p - q)).masked_fill(~counted_N[..., None], 0.0).sum() / 4

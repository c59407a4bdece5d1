"""What each head is like on this text, for the atlas; and how long its values are, for those who weigh weights by them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from regard.errors import UserError
from regard.lens import merged
from regard.lens.heads import MEASURES, head_statistics
from regard.model.convolution import Convolution
from regard.model.probe import attentions
from regard.studio.looks import Look


def statistics(look: Look) -> dict[str, Any]:
    """By measure, by attention, a number for each of its heads."""
    found = head_statistics(look.subject, look.seen)
    return {measure: found.field(measure) for measure in MEASURES}


@torch.no_grad()
def value_norms(look: Look, name: str) -> np.ndarray:
    """norm_HM: how long what a key brings is, if all of a head's weight is on it."""
    seen, attention = look.attention(name), attentions(look.subject.model)[name]
    if isinstance(attention, Convolution):
        raise UserError(f"{name} does not attend, so no weight brings a value; leave values out.")
    return merged.value_norms(attention, seen).cpu().numpy()

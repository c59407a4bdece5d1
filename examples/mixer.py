"""A mixer of your own: softmax over cosines, with a fixed temperature.

    regard train translate model.mixer=cosine --plugin examples/mixer.py --out runs/cosine

`mix` is what training and decoding call, `weights` the explicit definition that probes and the lens show. This one changes
queries and keys and leaves the rest to softmax attention, so every kernel and every visibility serves it.
"""

import torch.nn.functional as F
from torch import Tensor

import regard
from regard.attention import Bias, View
from regard.model.mixers.softmax import Softmax

SHARPNESS = 10.0


class Cosine:
    """Attention weights softmax(10 cos(q, k))."""

    recurrent_form = None  # decoding keeps keys and values

    def __init__(self, head_width: int) -> None:
        self.softmax, self.scale = Softmax(), SHARPNESS * head_width**0.5  # softmax divides by the root of the head width

    def mix(
        self, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View, dropout: float = 0.0, bias: Bias | None = None
    ) -> Tensor:
        q_BHLK, k_BHMK = self.scale * F.normalize(q_BHLK, dim=-1), F.normalize(k_BHMK, dim=-1)
        return self.softmax.mix(q_BHLK, k_BHMK, v_BHMK, view, dropout, bias)

    def weights(self, q_BHLK: Tensor, k_BHMK: Tensor, sees_BHLM: Tensor, bias_BHLM: Tensor | None = None) -> Tensor:
        return self.softmax.weights(self.scale * F.normalize(q_BHLK, dim=-1), F.normalize(k_BHMK, dim=-1), sees_BHLM, bias_BHLM)


regard.register.mixer("cosine", Cosine)

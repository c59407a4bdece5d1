"""The alignment model: attention of a recurrent decoder over the source words.

Bahdanau et al. 2015; Luong et al. 2015. The values are the encoder's vectors themselves: one head, and no projection of values
or of the result. The mixer compares a state s with a vector h. The projection of the source is computed here, once for all target
words: U h of the additive score, and W h of the bilinear score, which then is a dot product.

Dims: B batch, L target words, M source words, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from regard.model.attention import KeysValues, attend
from regard.model.layers import Linear
from regard.model.mixers import SCORES, Mixer
from regard.model.mixers.scores import Additive, Dot
from regard.model.mixers.softmax import Softmax
from regard.model.probe import Probe, Seen
from regard.model.recurrent.deferred_grad import Late, LateTangents, OneByOne
from regard.model.visibility import View


class Aligner(nn.Module):
    """Single-head attention over the source, with a dot, scaled dot, bilinear or additive score."""

    heads = 1

    def __init__(self, width: int, *, mixer: str, name: str) -> None:
        super().__init__()
        self.name, self.mixer = name, SCORES["dot" if mixer == "bilinear" else mixer](width)
        self.query = Linear(width, width, bias=False) if mixer == "additive" else None
        self.keys = Linear(width, width, bias=False) if mixer in ("additive", "bilinear") else None
        self.out = nn.Identity()  # in the place of an output projection: hooks read the context here
        self.probe: Probe | None = None

    def extra_repr(self) -> str:
        return type(self.mixer).__name__.lower()

    def project_kv(self, memory_BMD: Tensor) -> KeysValues:
        """Return keys and values of the source, once for all target words."""
        keys_BMD = memory_BMD if self.keys is None else self.keys(memory_BMD)
        return KeysValues(keys_BMD[:, None], memory_BMD[:, None])

    def remembering(self) -> Callable[[Tensor], KeysValues]:
        """Return `project_kv` for sources that change with every target word; use the function in one pass only."""
        if self.keys is None:
            return self.project_kv
        project = Late(self.keys.weight)
        return lambda h_BMD: KeysValues(project(h_BMD.flatten(0, 1)).view_as(h_BMD)[:, None], h_BMD[:, None])

    def forward(self, s_BLD: Tensor, memory: KeysValues, view: View) -> Tensor:
        """Return context_BLD of all target states at once."""
        return self.out(self.look(s_BLD if self.query is None else self.query(s_BLD), memory, view))

    def look(self, q_BLD: Tensor, memory: KeysValues, view: View, mixer: Mixer | None = None) -> Tensor:
        """Return the context of these queries, by another form of the mixer where one is given."""
        q_B1LD = q_BLD[:, None].to(memory.k_BHMK.dtype)
        return attend(self.probe, self.name, mixer or self.mixer, q_B1LD, *memory, view, None, 0.0).squeeze(1)

    def asking(self) -> Callable[[Tensor], Tensor]:
        """Return a function that projects states to queries one by one; use the function in one pass only."""
        return (lambda s_BD: s_BD) if self.query is None else Late(self.query.weight)

    def comparing(self, memory: KeysValues) -> Mixer:
        """Return a mixer for queries that come one by one; use the mixer in one pass only."""
        k_BMD, v_B1MD = memory.k_BHMK[:, 0], memory.v_BHMK
        match self.mixer:
            case Dot():
                return OneByOne(self.mixer, Late(k_BMD), v_B1MD)
            case Softmax():
                return OneByOne(self.mixer, Late(k_BMD * k_BMD.shape[-1] ** -0.5), v_B1MD)
            case Additive() as additive:
                plain = k_BMD.device.type == "cpu" and k_BMD.dtype == additive.weight_K.dtype
                late = plain and not torch.compiler.is_compiling()
                score = LateTangents(k_BMD, additive.weight_K) if late else partial(additive.of_one, k_BMD)
                return OneByOne(additive, score, v_B1MD)
            case _:
                return self.mixer

    def tell(self, q_BLD: Tensor, context_BLD: Tensor, memory: KeysValues, view: View) -> Tensor:
        """Record the attention of all words as one, if a probe is set; return the context."""
        if self.probe is not None and self.probe.recording:
            self.probe.seen[self.name] = Seen(self.mixer, q_BLD[:, None], *memory, view)
        return self.out(context_BLD)


def of_word(view: View, t: int) -> View:
    """Return the part of a view over all target words that belongs to one word."""

    def row(part: Tensor | None) -> Tensor | None:
        return part if part is None or part.shape[2] == 1 else part[:, :, t : t + 1]

    return replace(view, length=1, offset=t, mask=row(view.mask), fully_masked_rows=row(view.fully_masked_rows))

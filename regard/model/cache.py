"""Keys and values kept between decoding steps, in memory allocated ahead, shared by all lanes of a sentence.

A search keeps W hypotheses of a sentence alive, and they share most of their past. So what a step computes is written once,
into a slot that belongs to the sentence, and never moved: choosing hypotheses only changes which slots a lane descends from.
That is a visibility like any other, and the W lanes are W queries of one attention. Nothing is copied until a sentence leaves.

The places to write are tensors and the part that kernels look at grows in strides, so a compiled step keeps its shapes for many
tokens. Dims: S sentences, W lanes, N slots.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.model.visibility import Full, View, Visibility, given

STRIDE = 16  # tokens for which the visible part keeps its size


class Lineage:
    """Which slots each lane descends from, and where in the sentence each slot stands. One for all layers."""

    def __init__(self, sentences: int, device: torch.device) -> None:
        self.ancestors_SWN = torch.zeros(sentences, 1, 0, dtype=torch.bool, device=device)
        self.positions_N = torch.zeros(0, dtype=torch.long, device=device)
        self.used = 0  # slots written
        self.visible = 0  # slots the kernels look at
        self.length = 0  # tokens so far
        self.slots_W = self.positions_N
        self.position = torch.zeros(1, dtype=torch.long, device=device)

    def reserve(self) -> None:
        """Before a step: room for one more token in every lane. Known to the host, so nothing waits for the device."""
        lanes = self.ancestors_SWN.shape[1]
        if self.used + lanes > self.visible:
            self.visible = self.used + lanes * STRIDE
            more = self.visible - self.positions_N.shape[0]
            self.ancestors_SWN = torch.nn.functional.pad(self.ancestors_SWN, (0, more))
            self.positions_N = torch.nn.functional.pad(self.positions_N, (0, more))
        self.slots_W = torch.arange(self.used, self.used + lanes, device=self.positions_N.device)
        self.positions_N[self.used : self.used + lanes] = self.length
        self.ancestors_SWN[:, :, self.used : self.used + lanes] = torch.eye(
            lanes, dtype=torch.bool, device=self.positions_N.device
        )

    def advance(self) -> None:
        self.used += self.ancestors_SWN.shape[1]
        self.length += 1
        self.position += 1

    def view(self, visibility: Visibility) -> View:
        """What the newest token of each lane sees: its ancestors, where the model's own pattern lets it."""
        sees_SWN = self.ancestors_SWN
        if not isinstance(visibility, Full):
            b = h = self.position.new_zeros(1)
            sees_SWN = sees_SWN & visibility.sees(b, h, self.position, self.positions_N)
        sentences, lanes, slots = sees_SWN.shape
        return View(given(sees_SWN), sentences, lanes, slots, 0, sees_SWN.device, sees_SWN[:, None])

    def select(self, parents_SW: Tensor | None, sentences: Tensor | None) -> None:
        if sentences is not None:
            self.ancestors_SWN = self.ancestors_SWN.index_select(0, sentences)
        if parents_SW is not None:
            shape = (*parents_SW.shape, self.ancestors_SWN.shape[2])
            self.ancestors_SWN = self.ancestors_SWN.gather(1, parents_SW[..., None].expand(shape))


class Cache:
    """One attention's keys and values."""

    def __init__(self, lineage: Lineage, sentences: int, heads: int, head_width: int, like: Tensor) -> None:
        self.lineage = lineage
        self.k_SHNK = like.new_zeros(sentences, heads, 0, head_width)
        self.v_SHNK = like.new_zeros(sentences, heads, 0, head_width)

    def reserve(self) -> None:
        """Host-side, outside the compiled step: room for what is visible."""
        if (more := self.lineage.visible - self.k_SHNK.shape[2]) > 0:
            self.k_SHNK = torch.nn.functional.pad(self.k_SHNK, (0, 0, 0, more))
            self.v_SHNK = torch.nn.functional.pad(self.v_SHNK, (0, 0, 0, more))

    def append(self, k_SHWK: Tensor, v_SHWK: Tensor) -> tuple[Tensor, Tensor]:
        """Write the lanes' newest token and return everything visible."""
        self.k_SHNK.index_copy_(2, self.lineage.slots_W, k_SHWK.to(self.k_SHNK.dtype))
        self.v_SHNK.index_copy_(2, self.lineage.slots_W, v_SHWK.to(self.v_SHNK.dtype))
        return self.k_SHNK, self.v_SHNK

    def select(self, sentences: Tensor) -> None:
        self.k_SHNK, self.v_SHNK = self.k_SHNK.index_select(0, sentences), self.v_SHNK.index_select(0, sentences)

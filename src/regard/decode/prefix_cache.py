"""Keys and values by position: several new tokens of a text in one pass, after all that came before and beside its source.

Slot n of a row holds the key and value of its position n, so a pass writes where its tokens stand, and a query sees what the
model's visibility allows it of the slots up to its own. What stands beyond a text is never seen before it is written again: a
token that was only proposed needs no removal. Speculative decoding and prompts with a common prefix are built on this.

Dims: S rows, R of them in a pass, L new tokens, N slots, C tokens of a common prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import UserError
from regard.model.state.decoder import EncodedPrompt, memory_of
from regard.model.state.protocol import RowCompaction
from regard.model.visibility import View, Visibility, causal, given


class PositionSlots:
    """The keys and values of one layer. Before each pass the owner sets the slots of its tokens."""

    def __init__(self, prompt: Sequence[Tensor], rows: int, slots: int) -> None:
        kv_2SHPK = torch.stack(list(prompt))
        kv_2SHPK = kv_2SHPK.expand(-1, rows, -1, -1, -1).contiguous()
        self.kv_2SHNK = F.pad(kv_2SHPK, (0, 0, 0, max(0, slots - kv_2SHPK.shape[3])))

    def begin(self, slots_RL: Tensor, visible: int, rows_R: Tensor | None) -> None:
        self.slots_RL, self.visible, self.rows_R = slots_RL, visible, rows_R

    def append(self, kv_2RHLK: Tensor) -> Tensor:
        index = self.slots_RL[None, :, None, :, None].expand_as(kv_2RHLK)
        kv_2RHLK = kv_2RHLK.to(self.kv_2SHNK.dtype)
        if self.rows_R is None:
            self.kv_2SHNK.scatter_(3, index, kv_2RHLK)
            return self.kv_2SHNK[:, :, :, : self.visible]
        kept_2RHNK = self.kv_2SHNK[:, self.rows_R].scatter_(3, index, kv_2RHLK)
        self.kv_2SHNK[:, self.rows_R] = kept_2RHNK
        return kept_2RHNK[:, :, :, : self.visible]


class PrefixCache:
    """The texts of some rows, as keys and values of every layer of a decoder, and the sources that it reads, if any."""

    def __init__(self, read: EncodedPrompt, slots: int, last: int, rows: int = 0) -> None:
        """Copy encoded prompts, the first one to all rows if `rows` is given; no token is at a position after `last`."""
        self.model: Any = read.model  # with decoder, head and visibility, as every decoder of blocks has them
        self.visibility = visibility_of(read.model)
        self.embed, self.rows, self.last = read.embed, rows or read.rows, last
        must_keep_slots(self.model)
        self.layers = [PositionSlots(prompt, self.rows, slots) for prompt in read.prompts]
        self.memory = memory_of(read, self.rows)
        if self.memory is not None and read.memory_words_S is not None:
            self.memory.load(read.memories, read.memory_words_S)

    @property
    def device(self) -> torch.device:
        return self.layers[0].kv_2SHNK.device

    @torch.no_grad()
    def append(self, ids_RL: Tensor, first_R: Tensor, rows_R: Tensor | None = None) -> Tensor:
        """Return the decoder's vectors x_RLD of tokens that begin at positions first_R of these rows, by default of all."""
        slots_RL = first_R[:, None] + torch.arange(ids_RL.shape[1], device=ids_RL.device)
        positions_RL, visible = slots_RL.clamp(max=self.last), int(first_R.max()) + ids_RL.shape[1]
        for layer in self.layers:
            if (more := visible - layer.kv_2SHNK.shape[3]) > 0:
                layer.kv_2SHNK = F.pad(layer.kv_2SHNK, (0, 0, 0, more))
            layer.begin(slots_RL, visible, rows_R)
        view = self._view(positions_RL, slots_RL, visible)
        memory = (None, None) if self.memory is None else self.memory.of_rows(rows_R, ids_RL.shape[1])
        return self.model.decoder(self.embed(ids_RL, positions_RL), view, *memory, self.layers)

    def _view(self, positions_RL: Tensor, slots_RL: Tensor, visible: int) -> View:
        """Padding behind a text takes the slots after it, so no token of the text sees it."""
        rows, length = slots_RL.shape
        b = h = slots_RL.new_zeros(1)
        slots_N = torch.arange(visible, device=slots_RL.device)
        sees_RLN = self.visibility.sees(b, h, slots_RL[:, :, None], slots_N).expand(rows, length, visible)
        mask_RLN = sees_RLN.log()  # numbers that are added to scores
        return View(
            given(sees_RLN),
            rows,
            length,
            visible,
            0,
            slots_RL.device,
            mask_RLN[:, None],
            places=lambda: (positions_RL, slots_N[None]),
        )

    def compact(self, moves: RowCompaction) -> None:
        self.rows = moves.stay
        if self.memory is not None:
            self.memory.compact(moves)
        for layer in self.layers:
            for kept_SHNK in layer.kv_2SHNK:
                moves.within(kept_SHNK)
            layer.kv_2SHNK = layer.kv_2SHNK[:, : moves.stay]


def visibility_of(model: Any) -> Visibility:
    """Return what a decoder sees of its own tokens; an encoder has the same pattern, so a model's own need not be causal."""
    return causal & model.visibility


def must_keep_slots(model: Any) -> None:
    """Refuse a model whose decoding keeps sums, the last inputs or hidden vectors in place of keys and values."""
    blocks = getattr(model.decoder, "blocks", None)
    if blocks is None or any(not block.self_attention.keeps_slots for block in blocks):
        kind = f"model.family={model.config.family}" if blocks is None else f"model.mixer={model.config.mixer}"
        raise UserError(
            f"{kind} keeps no keys and values of single tokens while it decodes; leave out "
            "decode.draft, decode.prompt_lookup, decode.share_prefix and decode.cache."
        )


def common_prefix(ids_BL: Tensor, lengths_B: Tensor) -> int:
    """Return how many tokens all rows begin with."""
    differs_L = (ids_BL != ids_BL[:1]).any(0)
    differs_L = differs_L[: int(lengths_B.min())]
    found = differs_L.nonzero()
    return int(found[0, 0]) if len(found) else len(differs_L)


@torch.no_grad()
def start_with_common_prefix(model: Any, ids_BL: Tensor, lengths_B: Tensor) -> EncodedPrompt:
    """Return what `model.start` returns, encoding once what all prompts begin with."""
    must_keep_slots(model)
    common = common_prefix(ids_BL, lengths_B)
    if not common or len(ids_BL) == 1:
        return model.start(ids_BL, lengths_B)
    once = model.start(ids_BL[:1, :common], torch.full_like(lengths_B[:1], common))
    length = ids_BL.shape[1]
    cache = PrefixCache(once, length, last=max(0, length - 1), rows=len(ids_BL))
    if common < length:
        cache.append(ids_BL[:, common:], torch.full_like(lengths_B, common))
    return EncodedPrompt(model, once.embed, [tuple(layer.kv_2SHNK.unbind()) for layer in cache.layers], lengths_B)

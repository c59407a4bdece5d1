"""A decoder with attention over a dialogue in two levels: words within each turn, and turns.

Xing et al. 2018, section 3. Before word t is written, with the state s = s_t-1, from the last turn i to the first:

    words    r_i = sum of a_ij h_ij,   a_ij = softmax over the words j of turn i of w . tanh(W s + V l_i+1 + U h_ij)
    turns    l_i = GRU(r_i, l_i+1)     so a turn is read knowing what came after it, and what is being written
    then     c = sum of b_i l_i,       b_i = softmax over the turns of w' . tanh(W' s + U' l_i)
             s_t = cell([y_t; c], s),  and what scores words is Bahdanau's maxout of s_t, y_t and c

All words of a dialogue lie in one row, multiplied by U once, and those of a turn are picked from it. A turn that other
dialogues of the batch have and this one lacks has no words. A probe records two attentions, both over words: the weight of each
word, a_ij b_i, and b_i alone, spread evenly over the words of turn i.

Differs from the paper in: l begins with zeros, not with noise; the output has c too.

Dims: S dialogues, W words that are written side by side (lanes of a search; in training one), M source words, T turns, N words of
a turn, D width, R = S W rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.model.attention import KeysValues
from regard.model.layers import Linear, without_autocast
from regard.model.mixers.scores import FixedWeights
from regard.model.probe import Seen, taken_apart
from regard.model.recurrent.cells import Carried, CellKind, Cells, Recurrence
from regard.model.recurrent.decoders import Aligner, Now, Source, begun, deepened, one_more
from regard.model.recurrent.deferred_grad import Late
from regard.model.visibility import View, given

GRAPHS = 64  # that a process may need: one for each number of turns, and some for lengths that happen to be equal


class Looked(NamedTuple):
    """Words of each turn of a dialogue, from the last turn to the first, and which turns there are.

    The context of a missing turn is arbitrary: the attention over turns masks it."""

    words: list[tuple[KeysValues, View]]
    turns: View
    places: list[tuple[Tensor, Tensor]]  # where the words of a turn stand, and which of them there are
    length: int  # of the dialogues, with their marks

    @classmethod
    def of(cls, source: Source, lanes: int) -> Looked:
        assert source.turns is not None
        (memory, _), turns = source.seen, source.turns
        places = [_places(turns.of_SM == turn, turns.longest) for turn in range(turns.most)]
        views = [replace(_view(sees_SN, lanes), fully_masked_rows=None) for _, sees_SN in places]
        words = [(_picked(memory, place_SN), view) for (place_SN, _), view in zip(places, views)]
        there_ST = torch.stack([sees_SN[:, 0] for _, sees_SN in places], 1)
        return cls(words, _view(there_ST.repeat_interleave(lanes, 0), 1), places, turns.of_SM.shape[1])


class ByTurns(nn.Module):
    """The decoder of HRAN: attention over the words of each turn, then over turns."""

    fed = 0

    def __init__(self, cell: CellKind, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.width = width
        self.aligner = Aligner(width, mixer="additive", name="decoder.0.cross")
        self.later = Linear(width, width, bias=False)
        self.turn = Recurrence("gru", width, width, 1, 0.0)
        self.of_turns = Aligner(width, mixer="additive", name="decoder.1.cross")
        self.recurrence = Recurrence(cell, 2 * width, width, layers, dropout)
        self.deep = Linear(3 * width, 2 * width)
        self.fused: Callable[[ByTurns, Looked, Tensor, list[Carried]], tuple[Tensor, list[Carried]]] | None = None

    def forward(self, y_BLD: Tensor, begin_NPBD: Tensor, source: Source) -> Tensor:
        with without_autocast(y_BLD.device.type):  # autocast would add a conversion to each of many small products
            h_BLD, c_BLD = self._words(y_BLD.to(dtype := self.deep.weight.dtype), begin_NPBD.to(dtype), source.to(dtype))
        return deepened(self.deep, h_BLD, y_BLD, c_BLD)

    def _words(self, y_BLD: Tensor, begin_NPBD: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        """Return states and contexts of all words, computed one after the other."""
        looked = Looked.of(source, lanes=1)
        word = OneWord(self, looked)
        fused = self.fused if torch.is_grad_enabled() and self.aligner.probe is None else None
        known_LBG, carried = word.cells.known(y_BLD.transpose(0, 1)), begun(begin_NPBD)
        if fused is not None:  # it would be compiled once more for what is a part of something larger
            carried = [tuple(part_BD.clone() for part_BD in layer) for layer in carried]
        h, c = [], []
        for known_BG in known_LBG.unbind(0):
            c_B1D, carried = word(known_BG, carried) if fused is None else fused(self, looked, known_BG.clone(), carried)
            c.append(c_B1D)
            h.append(carried[-1][0])
        word.look.tell(source)
        return torch.stack(h, 1), torch.cat(c, 1)

    def compile(self, **options: Any) -> None:
        """Compile the step of one word: a graph for each number of turns, for any lengths. Used in training without a probe."""
        torch._dynamo.config.allow_rnn = True  # whose weights are read; it is never called
        torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, GRAPHS)
        self.fused = torch.compile(ByTurns._one_word, dynamic=True, **options)

    def _one_word(self, looked: Looked, known_BG: Tensor, carried: list[Carried]) -> tuple[Tensor, list[Carried]]:
        return OneWord(self, looked)(known_BG, carried)

    def step(self, y_SWD: Tensor, now: Now, source: Source) -> tuple[Tensor, Now]:
        lanes = y_SWD.shape[1]
        c_SWD = Looking(self, Looked.of(source, lanes), lanes)(now.carried_NPSWD[-1, 0])
        h_SWD, carried = one_more(self.recurrence, torch.cat([y_SWD, c_SWD.to(y_SWD.dtype)], -1), now.carried_NPSWD)
        return deepened(self.deep, h_SWD, y_SWD, c_SWD), Now(carried, now.fed_SWD)


class OneWord:
    """The computation for each word of a pass."""

    def __init__(self, decoder: ByTurns, looked: Looked) -> None:
        self.look = Looking(decoder, looked, lanes=1)
        self.cells = Cells(decoder.recurrence.layers, decoder.width, decoder.recurrence.dropout)

    def __call__(self, known_BG: Tensor, carried: list[Carried]) -> tuple[Tensor, list[Carried]]:
        c_B1D = self.look(carried[-1][0][:, None])
        return c_B1D, self.cells(known_BG, c_B1D.squeeze(1), carried)


class Looking:
    """The attention of one pass: weights that its words share, and what a probe records."""

    def __init__(self, decoder: ByTurns, looked: Looked, lanes: int) -> None:
        self.words, self.turns, self.looked, self.lanes = decoder.aligner, decoder.of_turns, looked, lanes
        self.ask, self.later, self.ask_turns = self.words.asking(), Late(decoder.later.weight), self.turns.asking()
        self.project_kv = self.turns.remembering()
        self.cells = Cells(decoder.turn.layers, 0, decoder.turn.dropout)
        self.mixers = [self.words.comparing(memory) if lanes == 1 else None for memory, _ in looked.words]
        self.seen: list[tuple[Tensor, Tensor]] = []

    def __call__(self, s_SWD: Tensor) -> Tensor:
        """Return context_SWD of the states s_SWD."""
        s_RD = s_SWD.flatten(0, 1)
        asked_RD, l_RD = self.ask(s_RD), torch.zeros_like(s_RD)
        read: list[Tensor] = []
        words: list[Tensor | None] = []
        for (memory, view), mixer in zip(self.looked.words, self.mixers):
            q_RD = self.later(l_RD, asked_RD) if read else asked_RD
            r_SWD = self.words.look(q_RD.view(s_SWD.shape), memory, view, mixer)
            words.append(_weights(self.words))
            ((l_RD,),) = self.cells(None, r_SWD.flatten(0, 1).to(l_RD.dtype), [(l_RD,)])
            read.append(l_RD)
        with taken_apart(self.turns.probe, self.lanes):
            context_R1D = self.turns.look(self.ask_turns(s_RD)[:, None], self.project_kv(torch.stack(read, 1)), self.looked.turns)
        if (turns := _weights(self.turns)) is not None:
            turns_SWT = turns.view(*s_SWD.shape[:2], -1)
            self.seen.append(self._over_words([part for part in words if part is not None], turns_SWT))
        return self.turns.out(context_R1D).view(s_SWD.shape)

    def _over_words(self, words: list[Tensor], turns_SWT: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights of both levels at the positions of the words."""
        words_SWM = even_SWM = turns_SWT.new_zeros(*turns_SWT.shape[:2], self.looked.length)
        for (place_SN, sees_SN), weights_SWN, turn_SW in zip(self.looked.places, words, turns_SWT.unbind(2)):
            place_SWN, even_SN = place_SN[:, None].expand_as(weights_SWN), sees_SN / sees_SN.sum(1, keepdim=True).clamp(min=1)
            words_SWM = words_SWM.scatter_add(2, place_SWN, weights_SWN * turn_SW[..., None])
            even_SWM = even_SWM.scatter_add(2, place_SWN, even_SN[:, None] * turn_SW[..., None])
        return words_SWM, even_SWM

    def tell(self, source: Source) -> None:
        """Record the attention of all words as one, if a probe is set."""
        for aligner, looks in zip((self.words, self.turns), zip(*self.seen)):
            assert aligner.probe is not None
            memory, view = source.seen
            aligner.probe.seen[aligner.name] = Seen(FixedWeights(), torch.cat(looks, 1)[:, None], *memory, view)


def _weights(aligner: Aligner) -> Tensor | None:
    """Return weights_BLM of the latest attention, if a probe records it."""
    if aligner.probe is None or not aligner.probe.recording:
        return None
    return aligner.probe[aligner.name].weights()[:, 0]


def _places(own_SM: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """Return the positions of a turn's words, which are adjacent, and which of them exist."""
    number_N = torch.arange(longest, device=own_SM.device)
    place_SN = own_SM.int().argmax(1, keepdim=True) + number_N
    return place_SN.clamp(max=own_SM.shape[1] - 1), number_N < own_SM.sum(1, keepdim=True)


def _picked(memory: KeysValues, place_SN: Tensor) -> KeysValues:
    place_S1ND = place_SN[:, None, :, None].expand(-1, -1, -1, memory.k_BHMK.shape[3])
    return KeysValues(*(part.gather(2, place_S1ND) for part in memory))


def _view(sees_SM: Tensor, lanes: int) -> View:
    """Return a view of visible positions in which fully masked rows have a zero context."""
    fully_masked_S1 = ~sees_SM.any(1, keepdim=True)
    added_SM = torch.zeros_like(sees_SM, dtype=torch.float32).masked_fill_(~(sees_SM | fully_masked_S1), -torch.inf)
    rows, length = sees_SM.shape
    mask, fully_masked = added_SM[:, None, None], fully_masked_S1[:, None, None]
    return View(given(sees_SM[:, None].expand(-1, lanes, -1)), rows, lanes, length, 0, sees_SM.device, mask, fully_masked)

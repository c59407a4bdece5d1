"""Three recurrent decoders: without attention, with attention before the cells (Bahdanau), and after the cells (Luong).

The alignment model is attention of the decoder over the source words: Bahdanau et al. 2015; Luong et al. 2015. The values are the
encoder's vectors themselves: one head, and no projection of values or of the result. The mixer compares a state s with a vector
h. The projection of the source is computed here, once for all target words: U h of the additive score, and W h of the bilinear
score, which then is a dot product.

    none       h_t = cell(y_t, h_t-1)                                                   Sutskever et al. 2014, Cho et al. 2014
    Bahdanau   c_t = look(h_t-1);  h_t = cell([y_t; c_t], h_t-1);  out = maxout W [h_t; y_t; c_t]   Bahdanau et al. 2015, A.2.2
    Luong      h_t = cell([y_t; o_t-1], h_t-1);  c_t = look(h_t);  o_t = tanh W [c_t; h_t]          Luong et al. 2015, 3.3

Luong's o_t-1 is input feeding: the previous attentional vector is an input of the cells. With it, and with Bahdanau's c_t, a step
needs the result of the step before, so training runs word by word too. Without it, all cells run as one kernel and attention is
one call.

Differs from the papers in: Bahdanau's output takes h_t where appendix A.2.2 writes the state before it. With several layers, the
last one attends. Dims: B batch, L target words, M source words, D width, N layers, P parts of what a cell carries, S sentences, W
lanes, R = S W rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.model.attention import KeysValues, attend
from regard.model.layers import Linear
from regard.model.mixers import SCORES, Mixer
from regard.model.mixers.scores import Additive, Dot
from regard.model.mixers.softmax import Softmax
from regard.model.probe import Probe, Seen
from regard.model.recurrent.cells import Carried, CellKind, Cells, Recurrence
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


Kind = Literal["none", "bahdanau", "luong"]


class Turns(NamedTuple):
    """Number of turns of a dialogue after each source word's own; -1 where there is no word."""

    of_SM: Tensor
    most: int  # no dialogue has more turns
    longest: int  # no turn has more words


class Source(NamedTuple):
    """The encoded source that a decoder attends to."""

    memory: KeysValues | None
    view: View | None
    turns: Turns | None = None

    @property
    def seen(self) -> tuple[KeysValues, View]:
        assert self.memory is not None
        assert self.view is not None
        return self.memory, self.view

    def to(self, dtype: torch.dtype) -> Source:
        memory, _ = self.seen
        return self._replace(memory=KeysValues(*(part.to(dtype) for part in memory)))


class Now(NamedTuple):
    """State of a decoder between two words."""

    carried_NPSWD: Tensor
    fed_SWD: Tensor  # of no width, where nothing is fed back


class WithoutAttention(nn.Module):
    """A decoder without attention: the source is known only through the first state of its cells."""

    aligner = None
    fed = 0

    def __init__(self, cell: CellKind, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.recurrence = Recurrence(cell, width, width, layers, dropout)

    def forward(self, y_BLD: Tensor, begin_NPBD: Tensor, source: Source) -> Tensor:
        return self.recurrence(y_BLD, begin_NPBD)

    def step(self, y_SWD: Tensor, now: Now, source: Source) -> tuple[Tensor, Now]:
        h_SWD, carried = one_more(self.recurrence, y_SWD, now.carried_NPSWD)
        return h_SWD, Now(carried, now.fed_SWD)


class Bahdanau(nn.Module):
    """A decoder that attends with its previous state, then feeds the word and the context to its cells."""

    fed = 0

    def __init__(self, cell: CellKind, width: int, layers: int, dropout: float, mixer: str) -> None:
        super().__init__()
        self.aligner = Aligner(width, mixer=mixer, name="decoder.0.cross")
        self.recurrence = Recurrence(cell, 2 * width, width, layers, dropout)
        self.deep = Linear(3 * width, 2 * width)

    def forward(self, y_BLD: Tensor, begin_NPBD: Tensor, source: Source) -> Tensor:
        memory, view = source.seen
        cells, ask = Cells(self.recurrence.layers, y_BLD.shape[2], self.recurrence.dropout), self.aligner.asking()
        mixer = self.aligner.comparing(memory)
        carried, q, c, h = begun(begin_NPBD), [], [], []
        for t, known_BG in enumerate(cells.known(y_BLD.transpose(0, 1)).unbind(0)):
            q.append(ask(carried[-1][0])[:, None])
            c.append(self.aligner.look(q[-1], memory, of_word(view, t), mixer))
            carried = cells(known_BG, c[-1].squeeze(1), carried)
            h.append(carried[-1][0])
        c_BLD = self.aligner.tell(torch.cat(q, 1), torch.cat(c, 1), memory, view)
        return deepened(self.deep, torch.stack(h, 1), y_BLD, c_BLD)

    def step(self, y_SWD: Tensor, now: Now, source: Source) -> tuple[Tensor, Now]:
        c_SWD = self.aligner(now.carried_NPSWD[-1, 0], *source.seen)
        h_SWD, carried = one_more(self.recurrence, torch.cat([y_SWD, c_SWD.to(y_SWD.dtype)], -1), now.carried_NPSWD)
        return deepened(self.deep, h_SWD, y_SWD, c_SWD), Now(carried, now.fed_SWD)


class Luong(nn.Module):
    """A decoder that feeds the word to its cells, then attends with the new state; the result goes to the vocabulary head."""

    def __init__(self, cell: CellKind, width: int, layers: int, dropout: float, mixer: str, input_feeding: bool) -> None:
        super().__init__()
        self.fed = width if input_feeding else 0
        self.aligner = Aligner(width, mixer=mixer, name=f"decoder.{layers - 1}.cross")
        self.recurrence = Recurrence(cell, width + self.fed, width, layers, dropout)
        self.combine = Linear(2 * width, width)

    def forward(self, y_BLD: Tensor, begin_NPBD: Tensor, source: Source) -> Tensor:
        if self.fed:
            return self._word_by_word(y_BLD, begin_NPBD, source)
        h_BLD = self.recurrence(y_BLD, begin_NPBD)
        return self._out(self.aligner(h_BLD, *source.seen), h_BLD)

    def _word_by_word(self, y_BLD: Tensor, begin_NPBD: Tensor, source: Source) -> Tensor:
        memory, view = source.seen
        cells, ask = Cells(self.recurrence.layers, y_BLD.shape[2], self.recurrence.dropout), self.aligner.asking()
        mixer, combine = self.aligner.comparing(memory), Late(self.combine.weight, self.combine.bias)
        carried, q, c, o_BD = begun(begin_NPBD), [], [], torch.zeros_like(begin_NPBD[0, 0])
        out = []
        for t, known_BG in enumerate(cells.known(y_BLD.transpose(0, 1)).unbind(0)):
            carried = cells(known_BG, o_BD, carried)
            h_BD = carried[-1][0]
            q.append(ask(h_BD)[:, None])
            c.append(self.aligner.look(q[-1], memory, of_word(view, t), mixer))
            o_BD = combine(torch.cat([c[-1].squeeze(1).to(h_BD.dtype), h_BD], 1)).tanh()
            out.append(o_BD)
        if self.aligner.probe is not None:
            self.aligner.tell(torch.cat(q, 1), torch.cat(c, 1), memory, view)
        return torch.stack(out, 1)

    def step(self, y_SWD: Tensor, now: Now, source: Source) -> tuple[Tensor, Now]:
        given_SWI = torch.cat([y_SWD, now.fed_SWD.to(y_SWD.dtype)], -1)
        h_SWD, carried = one_more(self.recurrence, given_SWI, now.carried_NPSWD)
        o_SWD = self._out(self.aligner(h_SWD, *source.seen), h_SWD)
        return o_SWD, Now(carried, o_SWD if self.fed else now.fed_SWD)

    def _out(self, c_BLD: Tensor, h_BLD: Tensor) -> Tensor:
        return self.combine(torch.cat([c_BLD.to(h_BLD.dtype), h_BLD], -1)).tanh()


Decoder = WithoutAttention | Bahdanau | Luong


def deepened(deep: Linear, h_BLD: Tensor, y_BLD: Tensor, c_BLD: Tensor) -> Tensor:
    """Maxout: return the larger of every two numbers (Goodfellow et al. 2013)."""
    return deep(torch.cat([part.to(y_BLD.dtype) for part in (h_BLD, y_BLD, c_BLD)], -1)).unflatten(-1, (-1, 2)).amax(-1)


def begun(begin_NPBD: Tensor) -> list[Carried]:
    return [tuple(begin_PBD.unbind()) for begin_PBD in begin_NPBD.unbind()]


def one_more(recurrence: Recurrence, y_SWI: Tensor, carried_NPSWD: Tensor) -> tuple[Tensor, Tensor]:
    """Return h_SWD of the last layer and the states of all layers after one more word in every lane."""
    carried_NPRD = recurrence.step(y_SWI.flatten(0, 1), carried_NPSWD.flatten(2, 3))
    carried_NPSWD = carried_NPRD.unflatten(2, y_SWI.shape[:2])
    return carried_NPSWD[-1, 0], carried_NPSWD

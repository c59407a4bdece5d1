"""Embedding and output of a large vocabulary in clusters: frequent words get wide vectors, rare ones narrow ones.

Tokens are in order of frequency. `cutoffs` (c_1, c_2, ...) make clusters [0, c_1), [c_1, c_2), ... [c_n, V). Cluster i has
vectors of E / divisor^i numbers and a projection to the width of the model (Baevski & Auli 2019, adaptive input).

Adaptive softmax (Grave et al. 2017): the head scores the first cluster and one entry for each other one, and

    p(w) = p_head(w)  in the first cluster,      p(w) = p_head(cluster i) p_i(w)  in cluster i

so a batch multiplies with the rare clusters only where a target is one of theirs. As in the paper's code: with a divisor of 1 all
clusters share one matrix of vectors; matrices of vectors are those of the embedding, and so are projections, but the first.

Dims: N tokens, V vocabulary, E width of vectors, D width of the model, C clusters behind the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.model.layers import Linear


def spans(cutoffs: Sequence[int], vocabulary: int) -> list[tuple[int, int]]:
    """Return the first token of each cluster, and the one after its last."""
    ends = [*cutoffs, vocabulary]
    return list(zip([0, *ends], ends))


class AdaptiveEmbedding(nn.Module):
    """Vectors of tokens by clusters, projected to the width of the model."""

    def __init__(self, vocabulary: int, width: int, inner: int, cutoffs: Sequence[int] = (), divisor: int = 1) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = vocabulary, width
        self.spans = spans(cutoffs, vocabulary) if divisor > 1 else [(0, vocabulary)]
        self.tables = nn.ModuleList(nn.Embedding(end - begin, inner // divisor**i) for i, (begin, end) in enumerate(self.spans))
        narrow = divisor > 1 or inner != width
        widths = [inner // divisor**i for i in range(len(self.spans))] if narrow else []
        self.projections = nn.ModuleList(Linear(each, width, bias=False) for each in widths)

    def extra_repr(self) -> str:
        return f"V={self.num_embeddings:,} -> D={self.embedding_dim}"

    def forward(self, ids_BL: Tensor) -> Tensor:
        """Every cluster is looked up for every token, and the right one chosen, so that shapes do not depend on the text."""
        x_BLD: Tensor | None = None
        for i, ((begin, end), table) in enumerate(zip(self.spans, self.tables)):
            found_BLD = table((ids_BL - begin).clamp(0, end - begin - 1))
            found_BLD = self.projections[i](found_BLD) if self.projections else found_BLD
            inside_BL1 = ((ids_BL >= begin) & (ids_BL < end))[..., None]
            x_BLD = found_BLD if x_BLD is None else torch.where(inside_BL1, found_BLD, x_BLD)
        assert x_BLD is not None
        return x_BLD

    @property
    def weight(self) -> Tensor:
        """Return the vectors of all tokens as one matrix [V, D], computed when it is asked for."""
        return self(torch.arange(self.num_embeddings, device=self.tables[0].weight.device))  # type: ignore[arg-type]


class AdaptiveHead(nn.Module):
    """Log-probabilities of all tokens, which are logits that sum to 1; and the loss of targets without computing them all."""

    def __init__(
        self, embedding: AdaptiveEmbedding, inner: int, cutoffs: Sequence[int], divisor: int, *, tie: bool, tie_projections: bool
    ) -> None:
        super().__init__()
        vocabulary, width = embedding.num_embeddings, embedding.embedding_dim
        self.spans, self.before = spans(cutoffs, vocabulary), None
        own = self.spans if divisor > 1 else [(0, vocabulary)]  # the matrices: one a cluster, or one for all
        self.tables = nn.ModuleList(Linear(inner // divisor**i, end - begin) for i, (begin, end) in enumerate(own))
        self.projections = nn.ModuleList(
            Linear(p.in_features, width, bias=False)  # type: ignore[arg-type]
            for p in embedding.projections
        )
        self.clusters = Linear(inner, len(cutoffs)) if cutoffs else None
        for i, table in enumerate(self.tables):
            if tie:
                table.weight = embedding.tables[i].weight
            if self.projections and tie_projections and i:
                self.projections[i].weight = embedding.projections[i].weight

    @property
    def project(self) -> SimpleNamespace:
        """Stand for an output matrix where only its number of rows and its device are asked for."""
        return SimpleNamespace(weight=self.tables[0].weight.new_empty(self.spans[-1][1], 0), bias=None)  # type: ignore[operator]

    def forward(self, x_BLD: Tensor) -> Tensor:
        head, parts = self._head(x_BLD), []
        shortlist = self.spans[0][1]
        parts.append(head[..., :shortlist])
        parts += [head[..., shortlist + i - 1, None] + self._tail(x_BLD, i) for i in range(1, len(self.spans))]
        return torch.cat(parts, -1)

    def loss(self, x_ND: Tensor, targets_N: Tensor) -> Tensor:
        """Return the cross-entropy in nats, summed over tokens; of a rare cluster only its own targets are computed."""
        head_NC, shortlist = self._head(x_ND), self.spans[0][1]
        entry_N, total = targets_N.clone(), head_NC.new_zeros(())
        for i, (begin, end) in enumerate(self.spans[1:], 1):
            inside_N = (targets_N >= begin) & (targets_N < end)
            entry_N[inside_N] = shortlist + i - 1
            total = total - self._tail(x_ND[inside_N], i).gather(1, targets_N[inside_N, None] - begin).sum()
        return total - head_NC.gather(1, entry_N[:, None]).sum()

    def _head(self, x_BLD: Tensor) -> Tensor:
        """Return log-probabilities of the first cluster's tokens and of the other clusters."""
        scores = self._scores(x_BLD, 0)
        if self.clusters is not None:
            scores = torch.cat([scores, self.clusters(self._narrow(x_BLD, 0))], -1)
        return F.log_softmax(scores.float(), -1)

    def _tail(self, x_BLD: Tensor, i: int) -> Tensor:
        return F.log_softmax(self._scores(x_BLD, i).float(), -1)

    def _scores(self, x_BLD: Tensor, i: int) -> Tensor:
        """Return the logits of a cluster's tokens among themselves."""
        begin, end = self.spans[i]
        if len(self.tables) == 1:
            table = self.tables[0]
            return F.linear(self._narrow(x_BLD, 0), table.weight[begin:end], table.bias[begin:end])  # type: ignore[index]
        return self.tables[i](self._narrow(x_BLD, i))

    def _narrow(self, x_BLD: Tensor, i: int) -> Tensor:
        return F.linear(x_BLD, self.projections[i].weight.T) if self.projections else x_BLD  # type: ignore[arg-type]

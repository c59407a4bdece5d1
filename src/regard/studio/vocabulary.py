"""The vocabulary as a space: the static vector of each piece, its nearest neighbours, analogies, and the vectors of positions.

Mikolov et al. 2013: king - man + woman is near queen. The words that were typed are left out of the answers, or they would almost
always win; the page says so, and shows where they would have stood.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import UserError
from regard.text.tokenizer import Tokenizer

NEAR = 10
POSITIONS = 128  # that similarities are shown of


@dataclass(frozen=True)
class Vocabulary:
    encode: Callable[[str], list[int]]
    piece: Callable[[int], str]
    unknown: int | None
    size: int  # of the vocabulary; the table may have more rows
    vectors_VD: Tensor
    positions: Callable[[Tensor], Tensor | None]
    furthest: int | None  # positions there are; None: no end

    @classmethod
    def of(
        cls, tokenizer: Tokenizer, vectors_VD: Tensor, positions: Callable[[Tensor], Tensor | None], furthest: int | None
    ) -> Vocabulary:
        """Return the pieces of a tokenizer with these vectors."""
        unknown, size = tokenizer.roles.unk, len(tokenizer)
        return cls(tokenizer.encode, lambda i: tokenizer.tokens([i])[0], unknown, size, vectors_VD, positions, furthest)

    def number(self, word: str) -> int:
        """Return the id of a word that is one piece of this vocabulary."""
        ids = self.encode(word.strip())
        if not ids or self.unknown in ids:
            raise UserError(f"{word[:40]!r} is not in this vocabulary; give a word that the model was trained on.")
        if len(ids) > 1:
            pieces = " ".join(self.piece(i) for i in ids[:8])
            raise UserError(
                f"{word[:40]!r} is {len(ids)} pieces here ({pieces}), and only a piece has a static vector; give another."
            )
        return ids[0]

    @torch.no_grad()
    def near(self, word: str) -> dict[str, Any]:
        number = self.number(word)
        return {"word": self.piece(number), "near": self._nearest(self._unit()[number], {number})}

    @torch.no_grad()
    def analogy(self, minus: str, base: str, plus: str) -> dict[str, Any]:
        """base - minus + plus: what `minus` is to `base`, `plus` is to it."""
        a, b, c = (self.number(word) for word in (minus, base, plus))
        unit_VD = self._unit()
        aim_D = F.normalize(unit_VD[b] - unit_VD[a] + unit_VD[c], dim=0)
        cosine_V = unit_VD @ aim_D
        typed = [
            {"token": self.piece(i), "cosine": float(cosine_V[i]), "rank": 1 + int((cosine_V > cosine_V[i]).sum())}
            for i in (a, b, c)
        ]
        return {"near": self._nearest(aim_D, {a, b, c}), "typed": typed}

    @torch.no_grad()
    def between_positions(self) -> Tensor | None:
        """cosine_PP; None where order is not given by vectors."""
        count = min(POSITIONS, self.furthest or POSITIONS)
        where_PD = self.positions(torch.arange(count, device=self.vectors_VD.device))
        if where_PD is None:
            return None
        unit_PD = F.normalize(where_PD.float(), dim=-1)
        return unit_PD @ unit_PD.T

    def _unit(self) -> Tensor:
        return F.normalize(self.vectors_VD[: self.size].float(), dim=-1)

    def _nearest(self, aim_D: Tensor, left_out: set[int]) -> list[dict[str, Any]]:
        cosine_V = self._unit() @ aim_D
        order: Sequence[int] = cosine_V.argsort(descending=True)[: NEAR + len(left_out)].tolist()
        found = [i for i in order if i not in left_out][:NEAR]
        return [{"token": self.piece(i), "cosine": float(cosine_V[i])} for i in found]

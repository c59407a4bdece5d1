"""Images with questions become batches: every image once, with its questions, whose words are padded.

Questions about one image share a batch, so that it is encoded once for all of them. What an epoch's batches are follows from
the seed and the number of the epoch alone.

Dims: N images, B questions of a batch, I their images, L question length, Y X rows and columns, C colours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.core.packing import IGNORED, to_device
from regard.core.rng import generator
from regard.data.batching.pairs import Ragged, digest, pad_rows

UNKNOWN = IGNORED  # the number of an answer that is no class


@dataclass(frozen=True)
class QuestionBatch:
    """A batch of questions and the images that they are about."""

    ids_BL: Tensor
    lengths_B: Tensor
    image_IYXC: Tensor  # bytes
    owner_B: Tensor  # of each question, the row of its image
    answers_B: Tensor
    tokens: int  # questions that have an answer to learn; known to the host

    to = to_device

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.ids_BL, self.lengths_B, self.image_IYXC, self.owner_B


@dataclass(frozen=True)
class EncodedQuestions:
    images_NYXC: np.ndarray
    owner: np.ndarray  # of each question, the number of its image
    words: Ragged
    answers: np.ndarray  # of each question, the number of its answer; UNKNOWN for one that is no class

    def __len__(self) -> int:
        return len(self.words)

    @property
    def digest(self) -> str:
        return digest(self.images_NYXC, self.owner, self.words, self.answers)


@dataclass(frozen=True)
class VisualQuestionBatches:
    """Questions as a source of batches: what the loader draws from. `tokens` are those of questions, padding counted."""

    data: EncodedQuestions
    tokens: int
    seed: int
    fixed_shapes = False

    def plan(self, epoch: int) -> list[np.ndarray]:
        """Shuffle images, then cut their questions into batches of about as many."""
        shuffled = generator(self.seed, "shuffle", epoch).permutation(len(self.data.images_NYXC))
        place = np.empty(len(shuffled), np.int64)
        place[shuffled] = np.arange(len(shuffled))
        order = np.argsort(place[self.data.owner], kind="stable")
        batches = max(1, len(order) // max(1, self.tokens // int(self.data.words.lengths.max(initial=1))))
        return np.array_split(order, batches)

    def count(self, rows: np.ndarray) -> int:
        return int((self.data.answers[rows] != UNKNOWN).sum())

    def batch(self, rows: np.ndarray, epoch: int) -> QuestionBatch:
        return make_batch(self.data, rows)


def make_batch(data: EncodedQuestions, rows: np.ndarray) -> QuestionBatch:
    ids_BL, lengths_B = pad_rows(*data.words.take(rows))
    images, owner_B = np.unique(data.owner[rows], return_inverse=True)
    answers_B = data.answers[rows]
    return QuestionBatch(
        ids_BL,
        lengths_B,
        torch.from_numpy(data.images_NYXC[images]),
        torch.from_numpy(owner_B),
        torch.from_numpy(answers_B),
        int((answers_B != UNKNOWN).sum()),
    )


def in_order(data: EncodedQuestions, tokens: int) -> list[QuestionBatch]:
    """Return batches of all questions once, those about one image together."""
    return [make_batch(data, rows) for rows in rows_in_order(data, tokens)]


def rows_in_order(data: EncodedQuestions, tokens: int) -> list[np.ndarray]:
    """Return the numbers of all questions once, in batches, those about one image together."""
    if not len(data):
        return []
    order = np.argsort(data.owner, kind="stable")
    return np.array_split(order, max(1, -(-len(order) * int(data.words.lengths.max(initial=1)) // max(1, tokens))))

"""Readers of people's data, one module a kind: parallel texts, labelled texts, tags, questions, dialogues, images, word vectors.

Each reads files, tables, JSON lines, the Hugging Face hub and built-in corpora, and says in one sentence what is wrong with them.
"""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    """A source text and its target: the row of every sequence-to-sequence data set."""

    source: str
    target: str

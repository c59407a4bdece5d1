"""The `[data]` section: where the examples are, and which of them are used.

The `[data]` section of images with captions.

The `[data]` section of dialogues: where they are, and how much of them comes before a reply.

The `[data]` section of a recipe for word vectors: the text they are learned from, and what they are asked afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.core.errors import UserError
from regard.data.valid_fraction import hint, must_be_share


@dataclass(frozen=True, kw_only=True)
class PairsConfig:
    """Pairs of texts, such as sentences and their translations."""

    train: tuple[str, ...]
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # source and target column of TSV, CSV, JSONL and hub data
    maximum_tokens: int = 256  # a training pair with a longer side is left out, and counted
    limit: int = 0  # use only so many training pairs; 0 is all
    valid_fraction: float = 0.0  # where there is no valid: this share of train, picked at random, is held out for it

    def __post_init__(self) -> None:
        must_be_share(self.valid_fraction)
        for key in ("train", "valid"):
            if not getattr(self, key) and (key == "train" or not self.valid_fraction):
                raise UserError(f"data.{key} is empty; give a file, two aligned files as a,b, or hf:NAME.{hint(key)}")
        if len(self.columns) not in (0, 2):
            raise UserError(f"data.columns has {len(self.columns)} names; give two, source,target.")
        if self.maximum_tokens < 1:
            raise UserError(f"data.maximum_tokens={self.maximum_tokens} must be at least 1.")
        if self.limit < 0:
            raise UserError(f"data.limit={self.limit} must be 0 (all) or more.")


@dataclass(frozen=True, kw_only=True)
class TextsConfig:
    """Running text: documents to be continued."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()  # none: the last part of train, `valid_fraction` of its tokens
    test: tuple[str, ...] = ()
    column: str = "text"  # of JSONL and hub data
    window: int = 0  # tokens that are seen together; 0: model.maximum_length
    document_mask: bool = True  # documents that share a window do not see each other
    valid_fraction: float = 0.05
    stride: int = 0  # when a test is scored: tokens by which windows move on; 0: half a window

    def __post_init__(self) -> None:
        if self.window < 0:
            raise UserError(f"data.window={self.window} must be 0 (model.maximum_length) or more.")
        if self.stride < 0:
            raise UserError(f"data.stride={self.stride} must be 0 (half a window) or more.")
        if not 0 < self.valid_fraction < 1:
            raise UserError(f"data.valid_fraction={self.valid_fraction} must be between 0 and 1, such as 0.05.")


@dataclass(frozen=True, kw_only=True)
class LabelledConfig:
    """Texts, or pairs of texts, each with a label."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    unlabelled: tuple[str, ...] = ()  # more texts, of which only a teacher says what they are
    columns: tuple[str, ...] = ()  # text and label, or text, second text and label
    maximum_tokens: int = 0  # a longer text is cut to so many, its marks counted; 0: none is, and none may be too long
    limit: int = 0  # use only so many training texts; 0 is all
    valid_fraction: float = 0.0  # where there is no valid: this share of train, picked at random, is held out for it

    def __post_init__(self) -> None:
        must_be_share(self.valid_fraction)
        if len(self.columns) not in (0, 2, 3):
            raise UserError(f"data.columns has {len(self.columns)} names; give two, text,label, or three, text,second,label.")
        if len(set(self.columns)) < len(self.columns):
            raise UserError(f"data.columns={','.join(self.columns)} names a column twice; give text,label or text,second,label.")
        if self.maximum_tokens and self.maximum_tokens < 8:
            raise UserError(f"data.maximum_tokens={self.maximum_tokens} must be 0 (nothing is cut) or at least 8.")
        if self.limit < 0:
            raise UserError(f"data.limit={self.limit} must be 0 (all) or more.")


@dataclass(frozen=True, kw_only=True)
class SentencesConfig:
    """Texts as they come, to be read and not learned from."""

    test: tuple[str, ...] = ()
    maximum_tokens: int = 0  # a longer text is cut to so many, its marks counted; 0: none is, and none may be too long

    def __post_init__(self) -> None:
        if self.maximum_tokens and self.maximum_tokens < 3:
            raise UserError(f"data.maximum_tokens={self.maximum_tokens} must be 0 (nothing is cut) or at least 3.")


@dataclass(frozen=True, kw_only=True)
class QuestionsConfig:
    """Questions about texts, answered by words of them."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # question, context and answers
    first: bool = False  # an answer without a start that stands there several times is taken from the first of them
    window: int = 0  # tokens that are seen together, question and marks counted; 0: model.maximum_length
    stride: int = 0  # tokens by which the windows of a long context move on; 0: half of those it shows
    compare: bool = False  # mark the words of the context that the question has too; for models with model.segments=3
    maximum_question: int = 64  # tokens; a longer question is cut, and counted
    maximum_answer: int = 30  # tokens
    n_best: int = 3  # answers to each question that `regard predict --json` tells, the best first
    unanswerable: bool = False  # may a question have no answer?
    threshold: float = 0.0  # where it may: by so much "no answer" must be better than the best answer
    limit: int = 0  # use only so many training questions; 0 is all
    valid_fraction: float = 0.0  # where there is no valid: this share of train, picked at random, is held out for it

    def __post_init__(self) -> None:
        must_be_share(self.valid_fraction)
        if len(self.columns) not in (0, 3):
            raise UserError(f"data.columns has {len(self.columns)} names; give three, question,context,answers.")
        if len(set(self.columns)) < len(self.columns):
            raise UserError(f"data.columns={','.join(self.columns)} names a column twice; give question,context,answers.")
        zeros = {"window": "model.maximum_length", "stride": "half a window", "limit": "all"}
        for key, meaning in zeros.items():
            if getattr(self, key) < 0:
                raise UserError(f"data.{key}={getattr(self, key)} must be 0 ({meaning}) or more.")
        for key in ("maximum_question", "maximum_answer", "n_best"):
            if getattr(self, key) < 1:
                raise UserError(f"data.{key}={getattr(self, key)} must be at least 1.")
        if not abs(self.threshold) < float("inf"):
            raise UserError(f"data.threshold={self.threshold} must be a number, such as 0 or -1.5.")
        if self.threshold and not self.unanswerable:
            raise UserError(f"data.threshold={self.threshold} is for data.unanswerable=true; set that too, or leave it out.")


@dataclass(frozen=True, kw_only=True)
class TaggedConfig:
    """Sentences, each word of them with a tag."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # word and tag; of files with columns by number, else by name
    scheme: Literal["auto", "iob1", "iob2", "iobes", "plain"] = "auto"  # how tags mark entities; plain: each stands for itself
    repair: bool = False  # tags that break the scheme are mended, and counted; else they are refused
    window: int = 0  # tokens that are seen together, marks counted; 0: model.maximum_length
    limit: int = 0  # use only so many training sentences; 0 is all
    valid_fraction: float = 0.0  # where there is no valid: this share of train, picked at random, is held out for it

    def __post_init__(self) -> None:
        must_be_share(self.valid_fraction)
        if len(self.columns) not in (0, 2) or len(set(self.columns)) < len(self.columns):
            raise UserError(f"data.columns={','.join(self.columns)} must be two columns, word,tag, such as data.columns=0,3.")
        if self.window and self.window < 16:
            raise UserError(f"data.window={self.window} must be 0 (model.maximum_length) or at least 16.")
        if self.limit < 0:
            raise UserError(f"data.limit={self.limit} must be 0 (all) or more.")


@dataclass(frozen=True, kw_only=True)
class CaptionsConfig:
    train: tuple[str, ...]
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    images: str = ""  # a folder or a .tar archive with the images; none: the folder that a captions file is in
    maximum_tokens: int = 64  # a longer caption is not trained on, and counted
    limit: int = 0  # use only so many training images; 0 is all
    valid_fraction: float = 0.0  # where there is no valid: this share of train, picked at random, is held out for it

    def __post_init__(self) -> None:
        must_be_share(self.valid_fraction)
        for key in ("train", "valid"):
            if not getattr(self, key) and (key == "train" or not self.valid_fraction):
                raise UserError(
                    f"data.{key} is empty; give a captions file, such as captions.jsonl, or builtin:scenes/{key}.{hint(key)}"
                )
        if self.maximum_tokens < 2:
            raise UserError(f"data.maximum_tokens={self.maximum_tokens} must be at least 2.")
        if self.limit < 0:
            raise UserError(f"data.limit={self.limit} must be 0 (all) or more.")


@dataclass(frozen=True, kw_only=True)
class DialoguesConfig:
    """Dialogues to learn to reply from."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    turns: int = 1  # that are seen before a reply; of more, the last
    replies: Literal["every", "second"] = "every"  # which turns are learned: all but the first, or the second speaker's
    maximum_tokens: int = 256  # of a context: its oldest turns are left out, and a training reply that is longer is too
    limit: int = 0  # use only so many training dialogues; 0 is all
    valid_fraction: float = 0.0  # where there is no valid: this share of train, picked at random, is held out for it

    def __post_init__(self) -> None:
        must_be_share(self.valid_fraction)
        if self.turns < 1:
            raise UserError(f"data.turns={self.turns} must be at least 1: the turn that is replied to.")
        if self.maximum_tokens < 8:
            raise UserError(f"data.maximum_tokens={self.maximum_tokens} must be at least 8.")
        if self.limit < 0:
            raise UserError(f"data.limit={self.limit} must be 0 (all) or more.")


@dataclass(frozen=True, kw_only=True)
class RetrievalConfig(DialoguesConfig):
    """Dialogues whose replies are found again."""

    maximum_tokens: int = 128  # of a context, whose oldest turns are left out, and of a reply, which is cut
    compare: Literal["replies", "contexts"] = "replies"  # with what a context is compared: kept replies, or what came before them
    nearest: int = 1  # replies that are told, the nearest first; of several, each with its cosine

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nearest < 1:
            raise UserError(f"data.nearest={self.nearest} must be at least 1.")


@dataclass(frozen=True, kw_only=True)
class WordsDataConfig:
    train: tuple[str, ...] = ()
    test: tuple[str, ...] = ()  # analogies (questions-words.txt) and rated pairs (WordSim-353), one file or several
    column: str = "text"  # of JSONL and hub data
    limit: int = 0  # of a file of vectors, read only so many; 0 is all
    nearest: int = 10  # answers to each question
    by: Literal["cosine", "euclid"] = "cosine"  # how near
    analogy: Literal["add", "mul"] = "add"  # how king - man + woman is reckoned: 3CosAdd, 3CosMul
    exclude: bool = True  # the words of a question are no answers to it
    restrict: int = 30_000  # analogies are scored once more with only so many words

    def __post_init__(self) -> None:
        for key in ("nearest", "restrict"):
            if getattr(self, key) < 1:
                raise UserError(f"data.{key}={getattr(self, key)} must be at least 1.")
        if self.limit < 0:
            raise UserError(f"data.limit={self.limit} must be 0 (all) or more.")
        if self.by == "euclid" and self.analogy == "mul":
            raise UserError("data.analogy=mul multiplies cosines, and data.by=euclid has none; leave one of them out.")

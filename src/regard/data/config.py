"""The `[data]` section of a recipe, a dataclass for each kind of data: which files to read, and how much of them to use.

Where no validation data are given, `data.valid_fraction=0.1` takes them from the training data. The share is picked at random by
a seed of its own, so that it is the same whatever the training's seed is. What belongs together stays together, in training or in
validation: the sentences of a document, the questions about a text, the captions of an image, the turns of a dialogue, and
examples that occur more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar

from regard.core.config import Bounds, Count, check_bounds
from regard.core.errors import UserError

if TYPE_CHECKING:
    import numpy as np


All = Annotated[int, Bounds(0, zero="all")]
Window = Annotated[int, Bounds(0, zero="model.maximum_length")]
Stride = Annotated[int, Bounds(0, zero="half a window")]
ValidFraction = Annotated[float, Bounds(0, 1, below=True, zero="none", example="0.1")]


def check_columns(columns: tuple[str, ...], *choices: str) -> None:
    """Refuse data.columns unless it is empty or names as many different columns as one of `choices`, such as "text,label"."""
    if columns and len(columns) not in [len(choice.split(",")) for choice in choices]:
        raise UserError(f"data.columns has {len(columns)} names; give {' or '.join(choices)}.")
    if len(set(columns)) < len(columns):
        raise UserError(f"data.columns={','.join(columns)} names a column twice; give {' or '.join(choices)}.")


@dataclass(frozen=True, kw_only=True)
class PairsConfig:
    """Pairs of texts, such as sentences and their translations."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # source and target column of TSV, CSV, JSONL and hub data
    maximum_tokens: Count = 256  # a training pair with a longer side is left out, and counted
    limit: All = 0  # use at most this many training pairs; 0 is all
    valid_fraction: ValidFraction = 0.0  # where there is no valid: this share of train, picked at random, is used for it

    def __post_init__(self) -> None:
        if self.train or self.valid:  # a checkpoint that is opened as it is has neither
            self.check_complete()
        check_bounds(self, "data.")
        check_columns(self.columns, "source,target")

    def check_complete(self) -> None:
        """Refuse data that cannot be trained on."""
        for key in ("train", "valid"):
            if not getattr(self, key) and (key == "train" or not self.valid_fraction):
                raise UserError(f"data.{key} is empty; give a file, two aligned files as a,b, or hf:NAME.{hint(key)}")


@dataclass(frozen=True, kw_only=True)
class TextToTextConfig:
    """Texts to read, each with a text to write; several files are several tasks, told apart by prefixes."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()  # as many files as train, in the same order; or one
    test: tuple[str, ...] = ()  # the same
    columns: tuple[str, ...] = ()  # input and target column of TSV, CSV, JSONL and hub data
    references: str = ""  # a column with more texts that are right
    prefixes: tuple[str, ...] = ()  # what stands before the inputs of each file; one for all, or one each
    weights: tuple[float, ...] = ()  # of the files, by which batches are shared out; none: by their sizes
    answers: Literal["text", "labels", "numbers"] = "text"  # what outputs are scored as
    step: Annotated[float, Bounds(0, zero="as they are")] = 0.0  # numbers are rounded to multiples of this
    maximum_input: Annotated[int, Bounds(8)] = 512  # tokens; a longer input is cut, and counted
    maximum_target: Annotated[int, Bounds(2)] = 128  # tokens; a training pair with a longer target is left out, and counted
    limit: All = 0  # use at most this many training pairs of each file; 0 is all
    valid_fraction: ValidFraction = 0.0  # where there is no valid: this share of train, picked at random, is used for it

    def __post_init__(self) -> None:
        for key in ("train", "valid"):
            if not getattr(self, key) and (key == "train" or not self.valid_fraction):
                raise UserError(f"data.{key} is empty; give a table with inputs and targets, or hf:NAME.{hint(key)}")
        check_bounds(self, "data.")
        check_columns(self.columns, "input,target")
        self._check_files()
        if self.step and self.answers != "numbers":
            raise UserError(f"data.step={self.step} rounds numbers, and data.answers={self.answers}; set data.answers=numbers.")
        if self.references and self.answers != "text":
            raise UserError(f"data.references={self.references} is for data.answers=text; leave one of them out.")

    def _check_files(self) -> None:
        files = len(self.train)
        if len(self.prefixes) not in (0, 1, files):
            raise UserError(
                f"data.prefixes has {len(self.prefixes)} entries for {files} files of data.train; give one for all, or one each."
            )
        if self.weights and len(self.weights) != files:
            raise UserError(f"data.weights has {len(self.weights)} numbers for {files} files of data.train; give one each.")
        if wrong := [weight for weight in self.weights if not 0 < weight < float("inf")]:
            raise UserError(
                f"data.weights has {wrong[0]:g}, but a weight is a number above 0; to have none of a file, leave it out."
            )
        for key in ("valid", "test"):
            if len(set(self.prefixes)) > 1 and len(given := getattr(self, key)) not in (0, files):
                raise UserError(
                    f"data.{key} has {len(given)} files, and data.prefixes says what stands before the inputs of {files}; give a "
                    "file for each file of data.train, in the same order."
                )


@dataclass(frozen=True, kw_only=True)
class TextsConfig:
    """Running text: documents to be continued."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()  # none: the last part of train, `valid_fraction` of its tokens
    test: tuple[str, ...] = ()
    column: str = "text"  # of JSONL and hub data
    window: Window = 0  # tokens that are seen together; 0: model.maximum_length
    document_mask: bool = True  # documents that share a window do not see each other
    valid_fraction: Annotated[float, Bounds(0, 1, above=True, below=True, example="0.05")] = 0.05
    stride: Stride = 0  # when a test is scored: tokens by which windows move on; 0: half a window

    def __post_init__(self) -> None:
        check_bounds(self, "data.")


@dataclass(frozen=True, kw_only=True)
class ContinuedTextsConfig(TextsConfig):
    """Running text for a decoder, which may have a memory of earlier segments."""

    memory: Annotated[int, Bounds(0, zero="model.memory")] = 0  # tokens, when a text is scored or continued, not in training


@dataclass(frozen=True, kw_only=True)
class LabelledConfig:
    """Texts, or pairs of texts, each with a label."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    unlabelled: tuple[str, ...] = ()  # more texts, of which only a teacher says what they are
    columns: tuple[str, ...] = ()  # text and label, or text, second text and label
    # A longer text is cut to this many tokens, its marks counted; 0: none is, and none may be too long.
    maximum_tokens: Annotated[int, Bounds(8, zero="nothing is cut")] = 0
    limit: All = 0  # use at most this many training texts; 0 is all
    valid_fraction: ValidFraction = 0.0  # where there is no valid: this share of train, picked at random, is used for it

    def __post_init__(self) -> None:
        check_bounds(self, "data.")
        check_columns(self.columns, "text,label", "text,second,label")


@dataclass(frozen=True, kw_only=True)
class SentencesConfig:
    """Texts as they come, to be read and not learned from."""

    test: tuple[str, ...] = ()
    # A longer text is cut to this many tokens, its marks counted; 0: none is, and none may be too long.
    maximum_tokens: Annotated[int, Bounds(3, zero="nothing is cut")] = 0

    def __post_init__(self) -> None:
        check_bounds(self, "data.")


@dataclass(frozen=True, kw_only=True)
class QuestionsConfig:
    """Questions about texts, answered by words of them."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # question, context and answers
    first: bool = False  # an answer without a start that stands there several times is taken from the first of them
    window: Window = 0  # tokens that are seen together, question and marks counted; 0: model.maximum_length
    stride: Stride = 0  # tokens by which the windows of a long context move on; 0: half of those it shows
    compare: bool = False  # mark the words of the context that the question has too; for models with model.segments=3
    maximum_question: Count = 64  # tokens; a longer question is cut, and counted
    maximum_answer: Count = 30  # tokens
    n_best: Count = 3  # answers to each question that `regard predict --json` gives, the best first
    unanswerable: bool = False  # may a question have no answer?
    threshold: Annotated[float, Bounds()] = 0.0  # where it may: "no answer" must be better by this much than the best answer
    limit: All = 0  # use at most this many training questions; 0 is all
    valid_fraction: ValidFraction = 0.0  # where there is no valid: this share of train, picked at random, is used for it

    def __post_init__(self) -> None:
        check_bounds(self, "data.")
        check_columns(self.columns, "question,context,answers")
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
    repair: bool = False  # tags that break the scheme are repaired, and counted; else they are refused
    # Tokens that are seen together, marks counted.
    window: Annotated[int, Bounds(16, zero="model.maximum_length")] = 0
    limit: All = 0  # use at most this many training sentences; 0 is all
    valid_fraction: ValidFraction = 0.0  # where there is no valid: this share of train, picked at random, is used for it

    def __post_init__(self) -> None:
        check_bounds(self, "data.")
        check_columns(self.columns, "word,tag")


@dataclass(frozen=True, kw_only=True)
class CaptionsConfig:
    """Images, each with one or several captions."""

    train: tuple[str, ...]
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    images: str = ""  # a folder or a .tar archive with the images; none: the folder that a captions file is in
    maximum_tokens: Annotated[int, Bounds(2)] = 64  # a longer caption is not trained on, and counted
    limit: All = 0  # use at most this many training images; 0 is all
    valid_fraction: ValidFraction = 0.0  # where there is no valid: this share of train, picked at random, is used for it

    def __post_init__(self) -> None:
        for key in ("train", "valid"):
            if not getattr(self, key) and (key == "train" or not self.valid_fraction):
                raise UserError(
                    f"data.{key} is empty; give a captions file, such as captions.jsonl, or builtin:scenes/{key}.{hint(key)}"
                )
        check_bounds(self, "data.")


@dataclass(frozen=True, kw_only=True)
class DialoguesConfig:
    """Dialogues to learn to reply from."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    turns: Count = 1  # that are seen before a reply; of more, the last
    replies: Literal["every", "second"] = "every"  # which turns are learned: all but the first, or the second speaker's
    maximum_tokens: Annotated[int, Bounds(8)] = (
        256  # of a context: its oldest turns are left out, and a training reply that is longer is too
    )
    limit: All = 0  # use at most this many training dialogues; 0 is all
    valid_fraction: ValidFraction = 0.0  # where there is no valid: this share of train, picked at random, is used for it

    def __post_init__(self) -> None:
        check_bounds(self, "data.")


@dataclass(frozen=True, kw_only=True)
class RetrievalConfig(DialoguesConfig):
    """Dialogues whose replies are found again."""

    # Tokens of a context, whose oldest turns are left out, and of a reply, which is cut.
    maximum_tokens: Annotated[int, Bounds(8)] = 128
    compare: Literal["replies", "contexts"] = "replies"  # with what a context is compared: kept replies, or what came before them
    nearest: Count = 1  # replies to give, the nearest first; of several, each with its cosine


@dataclass(frozen=True, kw_only=True)
class WordsDataConfig:
    """Text to learn word vectors from, and the questions that test them."""

    train: tuple[str, ...] = ()
    test: tuple[str, ...] = ()  # analogies (questions-words.txt) and rated pairs (WordSim-353), one file or several
    column: str = "text"  # of JSONL and hub data
    limit: All = 0  # of a file of vectors, read at most this many; 0 is all
    nearest: Count = 10  # answers to each question
    by: Literal["cosine", "euclid"] = "cosine"  # how near
    analogy: Literal["add", "mul"] = "add"  # how king - man + woman is reckoned: 3CosAdd, 3CosMul
    exclude: bool = True  # the words of a question are no answers to it
    restrict: Count = 30_000  # analogies are scored once more with the most frequent words, this many

    def __post_init__(self) -> None:
        check_bounds(self, "data.")
        if self.by == "euclid" and self.analogy == "mul":
            raise UserError("data.analogy=mul multiplies cosines, and data.by=euclid has none; leave one of them out.")


VECTOR_FILES = (".vec", ".bin", ".txt", ".w2v", ".glove")


def is_vector_file(path: Path | str) -> bool:
    """Return True if the name looks like that of a file of vectors."""
    return Path(path).is_file() and str(path).lower().removesuffix(".gz").endswith(VECTOR_FILES)


T = TypeVar("T")
SEED = 1  # that validation is picked by: the same whatever the training's
HOLD_OUT = "Or set data.valid= data.valid_fraction=0.1 to hold out a tenth of data.train."


class Rows(NamedTuple):
    kept: np.ndarray
    held: np.ndarray


def split_rows(groups: Sequence[Hashable], share: float, what: str) -> Rows:
    """Split row numbers into training and validation, in order; rows of one group stay together."""
    import numpy as np  # here, and what follows: settings are checked by this module too, before torch is imported

    from regard.core.rng import generator

    number = {group: n for n, group in enumerate(dict.fromkeys(groups))}
    of_row = np.array([number[group] for group in groups], np.int64)
    sizes, order = np.bincount(of_row, minlength=len(number)), generator(SEED, "held out").permutation(len(number))
    wanted = round(share * len(groups))
    before = np.cumsum(sizes[order]) - sizes[order]
    held = np.isin(of_row, order[before < wanted])
    if not 0 < held.sum() < len(groups):
        raise UserError(
            f"data.valid_fraction={share} of {len(groups):,} {what} is {int(held.sum()):,}, which leaves nothing to learn from "
            "or to validate with; choose another share, or give data.valid."
        )
    return Rows(np.flatnonzero(~held), np.flatnonzero(held))


def split_valid(examples: Sequence[T], group: Callable[[T], Hashable], share: float, what: str) -> tuple[list[T], list[T]]:
    """Split examples into training and validation; those of one group stay together."""
    rows = split_rows([group(example) for example in examples], share, what)
    return [examples[n] for n in rows.kept], [examples[n] for n in rows.held]


def describe_valid_fraction(data: Any) -> list[str]:
    """Describe whether a share of the training data is used for validation."""
    if data.valid_fraction and data.valid:
        return [f"data.valid_fraction={data.valid_fraction} is not used, since there is data.valid; data.valid= leaves that out"]
    said = f"valid: data.valid_fraction={data.valid_fraction} of train, picked at random and always the same"
    return [said] if data.valid_fraction else []


def hint(split: str, error: object = "does not exist") -> str:
    """Return the end of an error sentence about missing validation data."""
    return f" {HOLD_OUT}" if split == "valid" and "does not exist" in str(error) else ""

"""Protocols between tasks and commands: predictors, results, and what predictors can do besides.

`predict` and `evaluate` are written once, against these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from regard.core.errors import UserError

if TYPE_CHECKING:  # to name them: a run is opened without what trains one
    import numpy as np
    from PIL import Image

    from regard.core.terminal import Emit
    from regard.data.sources.word_vectors import WordVectors
    from regard.decode.beam_trace import SearchTree
    from regard.decode.config import DecodeConfig
    from regard.lens.alignment import Alignment
    from regard.lens.analyses.document import Document
    from regard.lens.analyses.image_heat import Heat
    from regard.lens.subject import Subject
    from regard.metrics.likelihood import Choice, Likelihood
    from regard.runs.folder import Say
    from regard.text.tokenizer import Tokenizer


class Result(Protocol):
    """Scores on a test set."""

    @property
    def outputs(self) -> Sequence[str]:
        """The model's outputs, a line each; empty where only the likelihood of the test set is scored."""

    def lines(self) -> list[str]: ...

    def as_dict(self) -> dict[str, Any]: ...


@runtime_checkable
class DrawnResult(Protocol):
    """Scores that can be drawn."""

    @property
    def draw(self) -> Callable[[], bytes] | None:
        """Return what draws a PNG file; None where there is nothing to draw."""


class Vocabulary(Protocol):
    """The meaning of a model's numbers: tokens, or labels. It is saved and sealed with the run."""

    def __len__(self) -> int: ...

    def save(self, path: Path) -> None: ...


class Predictor(Protocol):
    """A trained run, ready to do what it was trained for. What else it can do are the protocols below."""

    model: Any

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of what it reads; None for word vectors, which read whole words."""

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """Tell pieces of output as they are ready, line ends included.

        The first of the texts is number `first` of many that come; None: these are all there are.
        """

    def evaluate(self, test: Any) -> Result: ...


class PretrainedPredictor(Predictor, Protocol):
    """A public checkpoint as it is, from which a run can be made: its weights are the model's."""

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """The vocabularies by the name of their file in the run."""


@runtime_checkable
class Inspectable(Protocol):
    """Can show one text as a lens subject: tokens, a forward pass, and what the model is scored on."""

    @property
    def example(self) -> str:
        """A text to begin with."""

    def subject(self, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
        """Return `text` as the model reads it, scored on `target`: by default on the model's own output, or on the text itself.

        `hypothesis` is the rank, from 0, of one of the outputs of a search, instead of a target.
        """

    def test_texts(self, test: Any) -> Iterator[tuple[str, str | None]]:
        """Yield the texts of a test set and their targets, as `subject` takes them."""


@runtime_checkable
class Traceable(Protocol):
    """Writes text by a search whose candidates can all be kept."""

    @property
    def target_tokenizer(self) -> Tokenizer: ...

    def trace(self, text: str, beam: int, forced: Sequence[int]) -> SearchTree:
        """Return the tree of a beam search that begins with the tokens `forced`."""


@runtime_checkable
class Attends(Protocol):
    """Writes text, and can tell what each of its tokens attended to."""

    def attention(self, text: str, part: str | None = None) -> tuple[str, Alignment]:
        """Return the output and the attention weights of a part of the model: cross, decoder or encoder."""


@runtime_checkable
class Documents(Protocol):
    """May read a document sentence by sentence, if its family has `nested_documents`."""

    def document(self, text: str) -> Document: ...


@runtime_checkable
class Captions(Protocol):
    """Writes about an image, and can tell where each word looked."""

    def heat(self, name: str) -> Heat: ...


@runtime_checkable
class ReadsImages(Protocol):
    """Says something of an image, and can be looked into on any pixels."""

    model: Any

    def pixels(self, picture: Image.Image) -> np.ndarray:
        """Return image_YXC as the model reads it: its size, its colours."""

    def image_subject(self, image_YXC: np.ndarray, name: str, target: str | None = None) -> Subject:
        """Return such pixels as a lens subject, scored on `target`: by default on the model's own answer."""


@runtime_checkable
class AnswersImages(Protocol):
    """Answers questions about images, and can tell where it attended."""

    model: Any

    def answer_heat(self, image: str, question: str) -> Heat: ...

    def heat_of(self, picture: Image.Image, question: str) -> tuple[Heat, Sequence[tuple[str, float]]]:
        """Return the same of an image that is open, with the likeliest answers and their probabilities."""


@runtime_checkable
class Draws(Protocol):
    """Draws images, pixel after pixel."""

    def draw(self, text: str, seen: Callable[[np.ndarray, int], None] | None = None, number: int = 0) -> np.ndarray:
        """Return image_YXC, bytes, of what a text asks for: nothing, a class, or the file of an image that is begun or small.

        `seen` is called with the image as far as it is drawn, and how many pixels that is; sampling is seeded by `number`.
        """
        ...

    def draw_to(self, texts: Sequence[str], output: Path | None, as_json: bool, emit: Emit) -> None:
        """Draw what the texts ask for into a picture, or a folder of pictures."""


@runtime_checkable
class Forecasting(Protocol):
    """Continues the series of a table."""

    def forecast_to(self, texts: Sequence[str], output: Path | None, as_json: bool, emit: Emit) -> None:
        """Write the next values of a table, or draw them; without one, those of the table that was trained on."""


@runtime_checkable
class Streams(Protocol):
    """Continues a prompt, piece by piece."""

    decode: DecodeConfig
    window: int  # tokens

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def start(self) -> int:
        """Return the token that a text without a prompt starts from."""
        ...

    def stream(self, prompt: str, number: int, emit: Emit) -> str:
        """Write a continuation of a prompt, emitting each piece as it is generated; sampling is seeded by `number`."""

    def searching(self, **settings: Any) -> Streams:
        """Return the same model with other settings of [decode]."""


@runtime_checkable
class Converses(Protocol):
    """Replies to the last turn of a conversation."""

    def replies(self, turns: Sequence[str], say: Say) -> list[str]:
        """Return the reply, or several with their scores and a tab before each, best first."""


@runtime_checkable
class Scores(Protocol):
    """Tells how likely texts are."""

    def score(self, texts: Sequence[str]) -> Likelihood: ...

    def choose(self, context: str, options: Sequence[str], aside: str = "") -> Choice:
        """Return how likely each option is after the context."""


@runtime_checkable
class Fills(Protocol):
    """Fills in the blanks of texts."""

    def fill(self, texts: Sequence[str], top: int = 5) -> Sequence[Any]:
        """Return each text with the likeliest words of its blanks."""
        ...


@runtime_checkable
class Embeds(Protocol):
    """Turns texts into vectors."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return x_ND, a vector for each text."""


@runtime_checkable
class HasWordVectors(Protocol):
    """Holds one vector for each word."""

    vectors: WordVectors

    def number(self, word: str) -> int:
        """Return the row of a word."""


Capability = TypeVar("Capability")


def capability(predictor: object, kind: type[Capability], what: str, instead: str = "give another run") -> Capability:
    """Return the predictor if it has this capability; otherwise say in one sentence that it has not."""
    if not isinstance(predictor, kind):
        raise UserError(f"this run has no {what}; {instead}.")
    return predictor

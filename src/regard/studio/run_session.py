"""Opened runs as studio needs them (see `studio/session.py`): models that read texts or images, and word vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import nn

from regard.commands.image_views import reads_images
from regard.commands.subjects import subject_of
from regard.commands.views import ViewRequest, roles
from regard.commands.word_uses import find_uses, uses_in
from regard.core.errors import UserError
from regard.data.sources.captions import open_captioned
from regard.data.sources.images import square
from regard.data.sources.senses import typed_sentences
from regard.decode.beam_trace import SearchTree
from regard.families import family_of
from regard.lens.analyses.document import Document
from regard.lens.analyses.roles import Roles
from regard.lens.analyses.word_senses import WordUses
from regard.lens.image_subject import cell_row
from regard.lens.subject import Subject
from regard.model.embedding import Embed
from regard.model.probe import probe
from regard.runs.folder import Run
from regard.runs.protocols import Converses, Documents, Embeds, Fills, Inspectable, Predictor, Streams, Traceable
from regard.runs.recipe import Recipe
from regard.runs.task import TASKS
from regard.studio.gallery import Gallery, Shelf
from regard.studio.session import LONGEST, Session, last_weights
from regard.studio.vocabulary import Vocabulary
from regard.tasks.captioning.predict import CaptionGenerator, longest
from regard.tasks.captioning.prepare import read_listed
from regard.tasks.feature_encoder import Body, open_body
from regard.tasks.notices import must_read_pieces
from regard.tasks.registry import is_public
from regard.tasks.translation.inspect import must_be_pieces, of_image, trace_reading
from regard.tasks.word_vectors.predict import WordVectorModel
from regard.text.specials import SOS
from regard.text.tokenizer import TYPED, Tokenizer

HELLO = "hello , how are you ?"  # to a model that finds replies
KNOWN = "builtin:english-french"  # the sentence above is of its kind
SHORT = 16  # tokens of a language model's answer
RETRIEVES = (
    "this model finds replies by vectors of whole texts, and studio draws what single words look at; give a bot that writes, or "
    "see the neighbours of its words in Words."
)
NO_SCREEN = (
    "studio shows models that classify images, draw them, describe them or answer questions about them; for this one use "
    "'regard predict'."
)
ONE_EACH = "these are word vectors, one for each word whatever stands around it: nothing is read and nothing attends; see Words."


@dataclass(frozen=True, eq=False)
class RunSession(Session):
    """A model that reads texts. `name` is what `open_run` took, for those who need the run's body besides."""

    name: str
    answers: Predictor
    task: str
    weights: str

    @property
    def model(self) -> nn.Module:
        found: nn.Module = self.answers.model
        return found

    @property
    def example(self) -> str:
        """The first text of the run's test set, or the predictor's own example."""
        if self._first_tested is not None:
            return self._first_tested
        return self.answers.example if isinstance(self.answers, Inspectable) else HELLO

    @cached_property
    def _first_tested(self) -> str | None:
        """The first test text if it comes with the package; people's own files may be large, or gone."""
        if is_public(self.name) or not isinstance(self.answers, Inspectable) or not TASKS[self.task].single_texts:
            return None
        recipe = Run.open(self.name).recipe
        where = recipe.data.test[0] if recipe.data.test else ""
        if not where.startswith("builtin:") or where.startswith(KNOWN):
            return None
        return next(self.answers.test_texts(TASKS[self.task].read_test(recipe)))[0]

    def subject(self, text: str, target: str | None) -> Subject:
        if not family_of(self.model).has("attention"):
            raise UserError("an ELMo reads by two LSTMs and attends to nothing; Words shows what it makes of words in context.")
        if isinstance(self.answers, Converses):
            raise UserError(RETRIEVES)
        if reads_images(self.model):
            raise UserError(NO_SCREEN)
        self._must_fit(text)
        return subject_of(self.answers, text, target)

    def answer(self, text: str) -> str:
        """Return what `regard predict` prints; a language model's answer is cut to a line, a vector to its size."""
        answers = self.answers
        if reads_images(self.model):  # it would open what it takes for the name of a file, and a request may name any
            raise UserError(NO_SCREEN)
        if isinstance(answers, Embeds) and not isinstance(answers, Converses):
            return f"a vector of {answers.model.config.width} numbers"
        if isinstance(answers, Fills) and not TYPED.search(text):
            return text
        if isinstance(answers, Streams):
            room = max(1, answers.window + 1 - len(answers.tokenizer.encode(text)))
            answers = cast(Predictor, answers.searching(maximum_length=min(SHORT, room), minimum_length=0, samples=1))
        printed: list[str] = []
        answers.predict([text], 0, False, printed.append)
        return "".join(printed).strip("\n")

    def document(self, text: str) -> Document:
        if not isinstance(self.answers, Documents) or not family_of(self.model).has("nested_documents"):
            return super().document(text)
        return self.answers.document(text)

    def search(self, text: str, beam: int, forced: Sequence[int]) -> SearchTree:
        self._must_fit(text)
        return (
            self.answers.trace(text, beam, forced) if isinstance(self.answers, Traceable) else super().search(text, beam, forced)
        )

    @torch.no_grad()
    def alignment(self, text: str, tokens: Sequence[int]) -> tuple[list[str], list[float]]:
        self._must_fit(text)
        answers, tokenizer, (*before, _) = self.answers, must_read_pieces(self.answers), tokens
        if not isinstance(answers, Traceable):
            raise UserError("this model does not write, so nothing is aligned; give a translator or a language model.")
        must_be_pieces(tokens, answers.target_tokenizer, set())
        if isinstance(answers, Streams):  # it goes on from what it reads
            read = [*(tokenizer.encode(text) or [answers.start]), *before]
            inputs: list[list[Any]] = [[read]]
        else:
            translator: Any = answers
            (read,) = translator.sources([text])
            inputs = [[read], [len(read)], [[translator.marks.start, *before]]]
        with probe(self.model) as seen:
            self.model(*(torch.tensor(part, device=self._device) for part in inputs))
        names = [name for name in seen if name.endswith(".cross") or isinstance(answers, Streams)]
        if not names:
            raise UserError("this model looks at nothing of its source (model.attention=none), so nothing is aligned.")
        return tokenizer.tokens(read), last_weights(seen, names)

    def roles(self, text: str, target: str | None) -> Roles:
        found = roles(self.answers, ViewRequest(run=self.name, text=text, target=target))
        assert isinstance(found, Roles)
        return found

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.answers.target_tokenizer if isinstance(self.answers, Traceable) else super().target_tokenizer

    def vocabulary(self) -> Vocabulary:
        """Return the embedding of its tokens: a table with positions, or for a bag of words the table alone."""
        found = [module for module in self.model.modules() if isinstance(module, Embed | nn.Embedding)]
        embed = next((module for module in found if isinstance(module, Embed)), found[0])
        reads: Any = getattr(self.model, "body", self.model)
        furthest = reads.config.context
        tokenizer = must_read_pieces(self.answers)
        if isinstance(embed, Embed):
            return Vocabulary.of(tokenizer, embed.tokens.weight, embed.positions, furthest)
        return Vocabulary.of(tokenizer, embed.weight, lambda _: None, furthest)

    def uses(self, word: str, sentences: Sequence[str]) -> WordUses:
        return uses_in(self._body, word, find_uses(word, typed_sentences(sentences)))

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device

    @cached_property
    def _body(self) -> Body:
        return open_body(self.name, str(self._device))

    def _must_fit(self, text: str) -> None:
        """Before a pass that would take minutes: no text has more pieces than letters."""
        if len(text) <= LONGEST:
            return
        pieces = len(must_read_pieces(self.answers).encode(text))
        if pieces > LONGEST:
            raise UserError(f"this text is {pieces:,} tokens long, and studio looks into {LONGEST:,} at most; give less of it.")


@dataclass(frozen=True, eq=False)
class ImageSession(Session):
    """A captioner: what is laid before it are images, by the names that its gallery knows."""

    writer: CaptionGenerator
    recipe: Recipe
    task: str
    weights: str

    @property
    def model(self) -> nn.Module:
        return self.writer.model

    @property
    def example(self) -> str:
        return self.gallery.shelf.names[0]

    @cached_property
    def gallery(self) -> Gallery:
        return Gallery(lambda image: square(image, self.writer.model.config.image_size), self._listed)

    def _listed(self) -> Shelf:
        """The images of the test set, or of the validation set if there is none."""
        found = read_listed(self.recipe)
        names, labels = [one.name for one in found.examples], [one.captions[0] for one in found.examples]
        return Shelf(found.images_NYXC, names, labels, lambda n: open_captioned(found.examples[n]))

    def subject(self, text: str, target: str | None) -> Subject:
        return of_image(self.writer, self.gallery.picture(text).read_YXC, text, target)

    def answer(self, text: str) -> str:
        return self.writer.write(self.gallery.picture(text).read_YXC[None])[0][0].text

    def search(self, text: str, beam: int, forced: Sequence[int]) -> SearchTree:
        (maximum,) = self.writer.decode.capped([longest(self.writer.model.config)])
        if len(forced) >= maximum:
            raise UserError(f"that is more than the {maximum} tokens a caption may have; force fewer.")
        reading = self.writer.model.start(self._image(text))
        return trace_reading(reading, self.writer.tokenizer, self.writer.decode, maximum, beam, forced)

    @torch.no_grad()
    def alignment(self, text: str, tokens: Sequence[int]) -> tuple[Sequence[str], Sequence[float]]:
        must_be_pieces(tokens, self.writer.tokenizer, set())
        *before, _ = tokens
        if len(before) >= longest(self.writer.model.config):
            raise UserError("that is more than a caption may have; give fewer tokens.")
        with probe(self.model) as seen:
            self.model(self._image(text), torch.tensor([[SOS, *before]], device=self.writer.device))
        return cell_row(*(self.writer.model.config.side,) * 2).tokens, last_weights(
            seen, [n for n in seen if n.endswith(".cross")]
        )

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.writer.tokenizer

    def vocabulary(self) -> Vocabulary:
        target, config = self.writer.model.writer.target, self.writer.model.config
        furthest = config.maximum_length if config.position == "learned" else None
        return Vocabulary.of(self.writer.tokenizer, target.tokens.weight, target.positions, furthest)

    def uses(self, word: str, sentences: Sequence[str]) -> WordUses:
        raise UserError("this model reads images, so there are no sentences in which it could meet a word; it only writes them.")

    def _image(self, text: str) -> torch.Tensor:
        return torch.from_numpy(self.gallery.picture(text).read_YXC[None]).to(self.writer.device)


@dataclass(frozen=True, eq=False)
class WordSession(Session):
    """Word vectors: neighbours and analogies, and a sentence wherever a model would be needed."""

    lexicon: WordVectorModel
    task: str
    weights: str

    @cached_property
    def model(self) -> nn.Embedding:
        """The table, as what asks for heads and parameters expects it."""
        return nn.Embedding.from_pretrained(torch.from_numpy(self.lexicon.vectors.vectors_VD).float())

    @property
    def example(self) -> str:
        return self.lexicon.vectors.words[0]

    def vocabulary(self) -> Vocabulary:
        vectors, lower = self.lexicon.vectors, self.lexicon.lowercase
        return Vocabulary(
            encode=lambda word: [vectors.numbers.get(word.lower() if lower else word, -1)],
            piece=lambda i: vectors.words[i],
            unknown=-1,
            size=len(vectors.words),
            vectors_VD=self.model.weight,
            positions=lambda _: None,
            furthest=None,
        )

    def subject(self, text: str, target: str | None) -> Subject:
        raise UserError(ONE_EACH)

    def answer(self, text: str) -> str:
        raise UserError(ONE_EACH)

    def search(self, text: str, beam: int, forced: Sequence[int]) -> SearchTree:
        raise UserError(ONE_EACH)

    def uses(self, word: str, sentences: Sequence[str]) -> WordUses:
        raise UserError("these vectors are the same in every sentence, so a word's uses do not differ; see its neighbours.")

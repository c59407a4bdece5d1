"""An opened run as studio needs it, whatever it was trained for: see `studio/session.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import nn

from regard.commands.subjects import subject_of
from regard.commands.views import ViewRequest, roles
from regard.commands.word_uses import find_uses, uses_in
from regard.core.errors import UserError
from regard.data.sources.senses import typed_sentences
from regard.decode.beam_trace import SearchTree
from regard.families import family_of
from regard.lens.analyses.document import Document
from regard.lens.analyses.roles import Roles
from regard.lens.analyses.word_senses import WordUses
from regard.lens.subject import Subject
from regard.model.embedding import Embed
from regard.model.probe import probe
from regard.runs.folder import Run
from regard.runs.protocols import Documents, Inspectable, Predictor, Traceable
from regard.runs.task import TASKS
from regard.studio.session import LONGEST, WRITES_NOT, Session, facts_of
from regard.studio.vocabulary import Vocabulary
from regard.tasks.embedding.predict import Embedder
from regard.tasks.feature_encoder import Body, open_body
from regard.tasks.language_model.predict import LOOKED_AT, TextGenerator
from regard.tasks.masked_lm.predict import FillMask
from regard.tasks.notices import must_read_pieces
from regard.tasks.registry import is_public
from regard.tasks.retrieval.predict import Retriever
from regard.tasks.translation.inspect import must_be_pieces
from regard.tasks.translation.predict import Translator
from regard.text.specials import EOS, SOS
from regard.text.tokenizer import TYPED, Tokenizer

HELLO = "hello , how are you ?"  # to a model that finds replies
KNOWN = "builtin:english-french"  # the sentence above is of its kind
RETRIEVES = (
    "this model finds replies by vectors of whole texts, and studio draws what single words look at; give a bot that writes, or "
    "see the neighbours of its words in Words."
)


@dataclass(frozen=True, eq=False)
class RunSession(Session):
    """`name` is what `open_run` took, for those who need the run's body besides."""

    name: str
    answers: Predictor
    task: str
    weights: str  # where they come from, for people

    @property
    def model(self) -> nn.Module:
        found: nn.Module = self.answers.model
        return found

    @property
    def facts(self) -> Mapping[str, str]:
        return facts_of(self.model, self.task, self.weights)

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
        if isinstance(self.answers, Retriever):
            raise UserError(RETRIEVES)
        self._must_fit(text)
        return subject_of(self.answers, text, target)

    def answer(self, text: str) -> str:
        """Return what `regard predict` prints; a language model's answer is cut to a line, a vector to its size."""
        if isinstance(self.answers, Embedder):
            return f"a vector of {self.answers.model.config.width} numbers"
        answers: Predictor = self.answers
        if isinstance(answers, TextGenerator):
            room = max(1, answers.window + 1 - len(answers.tokenizer.encode(text)))
            decode = replace(answers.decode, maximum_length=min(LOOKED_AT, room), minimum_length=0, samples=1)
            answers = replace(answers, decode=decode)
        if isinstance(answers, FillMask) and not TYPED.search(text):
            return text
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
        answers = self.answers
        if not isinstance(answers, Translator | TextGenerator):
            raise UserError("this model does not write, so nothing is aligned; give a translator or a language model.")
        must_be_pieces(tokens, self._target, set())
        *before, _ = tokens
        with probe(self.model) as seen:
            if isinstance(answers, Translator):
                read = [*answers.tokenizers.source.encode(text), EOS]
                ids_1M, lengths_1 = (torch.tensor(part, device=answers.device) for part in ([read], [len(read)]))
                answers.model(ids_1M, lengths_1, torch.tensor([[SOS, *before]], device=answers.device))
            else:
                read = [*(answers.tokenizer.encode(text) or [answers.start]), *before]
                answers.model(torch.tensor([read], device=answers.device))
        names = [name for name in seen if name.endswith(".cross") or not isinstance(answers, Translator)]
        if not names:
            raise UserError("this model looks at nothing of its source (model.attention=none), so nothing is aligned.")
        last = seen[names[-1]]
        weights_M = last.weights(rows=[last.q_BHLK.shape[2] - 1])[0].mean(0)[0]
        tokenizer = answers.tokenizers.source if isinstance(answers, Translator) else answers.tokenizer
        return tokenizer.tokens(read), weights_M.tolist()

    def encode_word(self, word: str) -> list[int]:
        return self._target.encode(word)

    def roles(self, text: str, target: str | None) -> Roles:
        found = roles(self.answers, ViewRequest(run=self.name, text=text, target=target))
        assert isinstance(found, Roles)
        return found

    def piece_of(self, token: int) -> str:
        return self._target.tokens([token])[0]

    def decode_text(self, tokens: Sequence[int]) -> str:
        return self._target.decode(tokens)

    def vocabulary(self) -> Vocabulary:
        tokenizer, embed = must_read_pieces(self.answers), self._embed
        reads: Any = getattr(self.model, "body", self.model)
        return Vocabulary(
            encode=tokenizer.encode,
            piece=lambda i: tokenizer.tokens([i])[0],
            unknown=tokenizer.roles.unk,
            size=len(tokenizer),
            vectors_VD=embed.weight if isinstance(embed, nn.Embedding) else embed.tokens.weight,
            positions=(lambda _: None) if isinstance(embed, nn.Embedding) else embed.positions,
            furthest=reads.config.context,
        )

    def uses(self, word: str, sentences: Sequence[str]) -> WordUses:
        return uses_in(self._body, word, find_uses(word, typed_sentences(sentences)))

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device

    @cached_property
    def _body(self) -> Body:
        return open_body(self.name, str(self._device))

    @cached_property
    def _embed(self) -> Embed | nn.Embedding:
        """The embedding of its tokens: a table with positions, or for a bag of words the table alone."""
        found = [module for module in self.model.modules() if isinstance(module, Embed | nn.Embedding)]
        return next((module for module in found if isinstance(module, Embed)), found[0])

    @property
    def _target(self) -> Tokenizer:
        if not isinstance(self.answers, Traceable):
            raise UserError(WRITES_NOT)
        return self.answers.target_tokenizer

    def _must_fit(self, text: str) -> None:
        """Before a pass that would take minutes: no text has more pieces than letters."""
        if len(text) <= LONGEST:
            return
        pieces = len(must_read_pieces(self.answers).encode(text))
        if pieces > LONGEST:
            raise UserError(f"this text is {pieces:,} tokens long, and studio looks into {LONGEST:,} at most; give less of it.")

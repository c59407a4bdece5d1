"""A model that restores text: of spans that are hidden it writes what stood there, of other noise the whole text.

span_corruption             blanks, typed as [MASK], <mask> or <extra_id_0>, are filled in; any number of words each
masking, infilling          the same, but the model writes the whole text
deletion, permutation,      the text as it should be
rotation
prefix_lm, causal_lm        what follows
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import tokenizers
import torch

from regard.core.errors import UserError
from regard.core.terminal import Emit
from regard.data.batching.noise import fill_spans, parse_noise
from regard.data.batching.token_cache import tokenise
from regard.decode.algorithm import CapturedGraphs, sessions_on
from regard.families import build_model
from regard.objectives.denoising import denoising_loss
from regard.runs.folder import Run
from regard.runs.recipe import Recipe
from regard.runs.task import lazy
from regard.tasks.corpus import Text
from regard.tasks.generated_text import NOTHING, GeneratedText, tell, write
from regard.tasks.masked_lm.masking import MaskedTest, masked_test_texts
from regard.tasks.notices import LONGEST_SOURCE
from regard.tasks.output_marks import pair_marks
from regard.tasks.predictor import open_model
from regard.tasks.seq2seq_denoising.noised import SCORED, DenoisingScores, noised, score
from regard.tasks.speculation import SourceSpeculation, source_speculation
from regard.tasks.translation.predict import Tokenizers, Translator
from regard.text.specials import SENTINEL
from regard.text.tokenizer import TYPED, Blanks, Tokenizer

if TYPE_CHECKING:
    from regard.lens.subject import Subject

BLANKS = re.compile(rf"{TYPED.pattern}|{SENTINEL.format('[0-9]+')}")


@dataclass
class Restorer:
    """A trained model with its noise."""

    model: Any
    tokenizer: Tokenizer
    recipe: Recipe
    sessions: CapturedGraphs | None = None
    proposes: SourceSpeculation | None = None  # tokens, if the settings ask for it

    example = "the [MASK] statement is used to [MASK] a module"
    routes = lazy("regard.tasks.seq2seq_denoising.serve:routes")

    def __post_init__(self) -> None:
        self.kinds = parse_noise(self.recipe.objective.noise)
        self.sessions = sessions_on(next(self.model.parameters()).device, self.recipe.decode.compile)

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> Restorer:
        recipe.decode.must_not_continue("an output")
        model, tokenizer = open_model(
            run, recipe, device, lambda size: build_model(recipe.model, 0, vocabulary=size, target_vocabulary=size)
        )
        room = model.config.context or LONGEST_SOURCE
        return cls(
            model, tokenizer, recipe, proposes=source_speculation(recipe.decode, model, tokenizer, tokenizer, room, device)
        )

    @overload
    def __call__(self, text: str) -> str: ...
    @overload
    def __call__(self, text: list[str]) -> list[str]: ...
    def __call__(self, text: str | list[str]) -> str | list[str]:
        """One text or many, restored."""
        if isinstance(text, list):
            return [best[0].text for best in self.restore(text)]
        return self.restore([text])[0][0].text

    def restore(self, texts: Sequence[str], first: int = 0) -> list[list[GeneratedText]]:
        """Return the outputs of a search for each text, in the order given; of an empty text, nothing."""
        rows = [row for row, text in enumerate(texts) if text.strip()]
        sources = [self.encode(texts[row]) for row in rows]
        results: list[list[GeneratedText]] = [[NOTHING] for _ in texts]
        options: dict[str, Any] = {"sessions": self.sessions, "proposes": self.proposes}
        found = write(self.model, self.tokenizer, self.recipe.decode, sources, first=first, **options)
        for row, source, outputs in zip(rows, sources, found):
            results[row] = [self._completed(source, output) for output in outputs]
        return results

    def encode(self, text: str) -> list[int]:
        """Return what the model reads of a text as it is typed."""
        if {"masking", "infilling"} & set(self.kinds):
            (ids,) = Blanks(self.tokenizer).encode([text])
        else:
            reader, typed = self._typed(text)
            ids = reader.encode(typed)
        most = self.model.config.context or LONGEST_SOURCE
        if (length := len(ids) + pair_marks(self.tokenizer, self.recipe.decode).around_source) > most:
            raise UserError(f"{text[:40]!r} is {length:,} tokens long, its end counted, and {most:,} can be read; split it.")
        return ids

    def _typed(self, text: str) -> tuple[Tokenizer, str]:
        """Return a text with its blanks named as the vocabulary names them, and the tokenizer that finds those names."""
        if self.kinds == ("causal_lm",):
            raise UserError(
                "objective.noise=causal_lm taught this model to write from nothing, and it reads no text; train one with "
                "objective.noise=prefix_lm."
            )
        if "span_corruption" in self.kinds:
            numbers = count()
            typed = BLANKS.sub(lambda _: SENTINEL.format(next(numbers)), text)
            blanks, known = next(numbers), len(self.tokenizer.sentinels())
            if not blanks:
                raise UserError(f"{text[:40]!r} has no blank to fill in; write [MASK] in place of some words.")
            if blanks > known:
                raise UserError(f"{text[:40]!r} has {blanks:,} blanks, and this vocabulary has names for {known:,}; give fewer.")
            return with_typed_sentinels(self.tokenizer), typed
        if {"masking", "infilling"} & set(self.kinds):
            finder = Blanks(self.tokenizer)
            return finder.finds, TYPED.sub(lambda _: finder.name, text)
        return self.tokenizer, text

    def subject(self, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
        """Return a text with blanks, and what the model writes from it, as a translator of the one into the other has them."""
        from regard.tasks.translation.inspect import of_translator

        reader, typed = self._typed(text)
        translator = Translator(self.model, Tokenizers(reader, self.tokenizer), self.recipe.decode)
        return of_translator(translator, typed, target, hypothesis)

    def test_texts(self, test: MaskedTest) -> Iterator[tuple[str, str | None]]:
        """Yield a test text in pieces; where the model fills in, the second half of each is a blank."""
        fills = {"span_corruption", "masking", "infilling"} & set(self.kinds)
        for piece, _ in masked_test_texts(test, self.recipe, self.tokenizer):
            words = piece.split(" ")
            half = max(1, len(words) // 2)
            yield (" ".join([*words[:half], "[MASK]"]) if fills else piece), None

    def _completed(self, source: list[int], output: GeneratedText) -> GeneratedText:
        if "span_corruption" not in self.kinds:
            return output
        whole = fill_spans(np.array(source), np.array(output.ids, np.int64), np.array(self.tokenizer.sentinels()))
        return output._replace(text=self.tokenizer.decode(whole.tolist()))

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """A line for each text, or one for each of its n_best."""
        for text, found in zip(texts, self.restore(texts, first or 0)):
            tell({"source": text}, found, self.recipe.decode, as_json, emit)

    def evaluate(self, test: MaskedTest) -> DenoisingScores:
        """Score the predictions of targets, whose noise is always the same."""
        tokens = tokenise(test.where, test.column, self.tokenizer, eos=None, say=lambda line: None)
        text = Text.of(tokens, 0, len(tokens.ids))
        batches = noised(self.recipe, self.tokenizer, text, SCORED).in_order()
        with torch.no_grad():
            return score(self.model, denoising_loss(self.recipe.objective), batches, self.recipe.objective.noise)


def with_typed_sentinels(tokenizer: Tokenizer) -> Tokenizer:
    """Return a copy that finds the names of sentinels where they are typed, which are text to the tokenizer itself."""
    settings, own = json.loads(tokenizer.raw.to_str()), set(tokenizer.sentinels())
    for piece in settings["added_tokens"]:
        if piece["id"] in own:
            piece |= {"special": False, "normalized": False}
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(settings)))

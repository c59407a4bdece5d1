"""A trained translator: text in, text out, with scores and, for those who look, its attention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np
import torch

from regard.data.batches import pad
from regard.decode.batching import in_batches
from regard.decode.config import DecodeConfig
from regard.decode.hypothesis import Hypothesis
from regard.decode.search import search
from regard.families import FAMILIES
from regard.families.transformer import Transformer
from regard.lens.alignment import Alignment
from regard.model.probe import not_recording, probe
from regard.recipe import Recipe
from regard.tasks.run import Run, choose_device
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary import EOS, PAD, SOS

ROOM = 50  # an output may be so many tokens longer than its source (Vaswani et al. 2017, section 6.1)


class Tokenizers(NamedTuple):
    """One for both languages, or one each."""

    source: Tokenizer
    target: Tokenizer

    @staticmethod
    def files(joint: bool) -> tuple[str, ...]:
        return ("tokenizer.json",) if joint else ("tokenizer.source.json", "tokenizer.target.json")

    @classmethod
    def load(cls, folder: Path, joint: bool) -> Tokenizers:
        loaded = [Tokenizer.load(folder / name) for name in cls.files(joint)]
        return cls(loaded[0], loaded[-1])

    def save(self, folder: Path, joint: bool) -> None:
        for name, tokenizer in zip(self.files(joint), self):
            tokenizer.save(folder / name)


class Translation(NamedTuple):
    text: str
    score: float  # length-normalised log-probability, what the search ranks by
    logprob: float
    finished: bool
    ids: list[int]


@dataclass
class Translator:
    model: Transformer
    tokenizers: Tokenizers
    decode: DecodeConfig

    @classmethod
    def open(cls, folder: Path | str, device: str | None = None, assignments: Sequence[str] = ()) -> Translator:
        run = Run.open(folder)
        recipe = run.recipe_with(list(assignments))
        tokenizers = Tokenizers.load(run.folder, recipe.text.joint)
        model = build_model(recipe, tokenizers)
        model.load_state_dict(run.weights().tensors("model"))
        return cls(model.to(choose_device(device)).eval(), tokenizers, recipe.decode)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @overload
    def __call__(self, text: str) -> str: ...
    @overload
    def __call__(self, text: list[str]) -> list[str]: ...
    def __call__(self, text: str | list[str]) -> str | list[str]:
        """One text or many. Under a probe the search is not recorded; its result is then seen in one pass."""
        texts = [text] if isinstance(text, str) else text
        with not_recording(self.model) as looking:
            found = [best[0] for best in self.translate(texts)]
        if looking and found:
            self._look(texts, found)
        return found[0].text if isinstance(text, str) else [translation.text for translation in found]

    def translate(self, texts: Sequence[str]) -> list[list[Translation]]:
        """The n_best of each text, best first, in the order given, decoded in batches of similar length."""
        sources = [[*ids, EOS] for ids in self.tokenizers.source.encode_batch(list(texts))]
        results: list[list[Translation]] = [[] for _ in texts]
        for rows in in_batches([len(ids) for ids in sources], self.decode.batch_tokens):
            for row, hypotheses in zip(rows, self._search([sources[row] for row in rows])):
                results[row] = [self._translation(hypothesis) for hypothesis in hypotheses]
        return results

    def stream(self, lines: Iterable[str], chunk: int = 64) -> Iterator[list[Translation]]:
        """Translate lines as they come, a chunk at a time."""
        lines = iter(lines)
        while part := list(islice(lines, chunk)):
            yield from self.translate(part)

    def _search(self, sources: list[list[int]]) -> list[list[Hypothesis]]:
        c = self.decode
        source_BM, lengths_B = pad([np.array(ids) for ids in sources])
        maximum = torch.tensor(c.capped([len(ids) + ROOM for ids in sources]), device=self.device)
        state = self.model.start(source_BM.to(self.device), lengths_B.to(self.device))
        return search(c, state, len(sources), sos=SOS, eos=EOS, maximum=maximum, banned=(PAD, SOS))

    def _translation(self, hypothesis: Hypothesis) -> Translation:
        text = self.tokenizers.target.decode(hypothesis.ids)
        return Translation(text, hypothesis.score, hypothesis.logprob, hypothesis.finished, hypothesis.ids)

    @torch.no_grad()
    def _look(self, texts: Sequence[str], translations: Sequence[Translation]) -> None:
        """One teacher-forced pass over the results: training and decoding give the same numbers, so this is what was attended."""
        sources = [[*ids, EOS] for ids in self.tokenizers.source.encode_batch(list(texts))]
        source_BM, lengths_B = pad([np.array(ids) for ids in sources])
        target_BL, _ = pad([np.array([SOS, *translation.ids]) for translation in translations])
        self.model(source_BM.to(self.device), lengths_B.to(self.device), target_BL.to(self.device))

    def attention(self, text: str, part: str = "cross") -> tuple[str, Alignment]:
        """The translation, and what each of its words attended to: part "cross", "decoder" or "encoder"."""
        with probe(self.model) as seen:
            (best, *_) = self._probed(text)
        names = [name for name in seen if name.endswith(".cross") == (part == "cross") and (part == "cross" or part in name)]
        weights = torch.stack([seen[name].weights()[0] for name in names]).cpu().numpy()
        source = [*self.tokenizers.source.tokens(self.tokenizers.source.encode(text)), "<eos>"]
        given, written = ["<sos>", *self.tokenizers.target.tokens(best.ids)], [*self.tokenizers.target.tokens(best.ids), "<eos>"]
        queries, keys = {"cross": (written, source), "decoder": (written, given), "encoder": (source, source)}[part]
        return best.text, Alignment(f"{text} → {best.text}", tuple(queries), tuple(keys), weights, tuple(names))

    def _probed(self, text: str) -> list[Translation]:
        with not_recording(self.model):
            found = self.translate([text])[0]
        self._look([text], found[:1])
        return found


def build_model(recipe: Recipe, tokenizers: Tokenizers) -> Transformer:
    _, family = FAMILIES[recipe.model.family]
    return family(recipe.model, len(tokenizers.source), len(tokenizers.target), seed=recipe.train.seed)

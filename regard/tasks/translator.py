"""A trained translator: text in, text out, with scores and, for those who look, its attention."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np
import torch

from regard.data.batches import pad
from regard.decode.batching import in_batches
from regard.decode.config import DecodeConfig
from regard.decode.graph import Sessions, sessions_on
from regard.decode.hypothesis import Hypothesis
from regard.decode.search import search
from regard.errors import UserError
from regard.families import FAMILIES
from regard.families.transformer import Transformer, TransformerConfig
from regard.lens.alignment import Alignment
from regard.model.packed import pack
from regard.model.probe import not_recording, probe
from regard.recipe import Recipe
from regard.tasks.run import Run, choose_device
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary import EOS, PAD, SOS
from regard.train.checkpoint import Checkpoint

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


NOTHING = Translation("", 0.0, 0.0, True, [])  # what an empty text says, in any language


@dataclass
class Translator:
    model: Transformer
    tokenizers: Tokenizers
    decode: DecodeConfig
    sessions: Sessions | None = None  # on a GPU: recorded searches, to be replayed

    def __post_init__(self) -> None:
        self.sessions = sessions_on(self.device)

    @classmethod
    def open(cls, folder: Path | str, device: str | None = None, assignments: Sequence[str] = ()) -> Translator:
        run = Run.open(folder)
        return cls.of(run, run.recipe_with(assignments), choose_device(device))

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> Translator:
        """The run's translator; of its recipe, the search and the data may have been set anew."""
        _must_be_as_trained(run, recipe)
        tokenizers = Tokenizers.load(run.folder, recipe.text.joint)
        model = build_model(recipe, tokenizers)
        _fill(model, run.weights())
        if device.type == "cpu":
            pack(model, recipe.decode.weights)
        elif recipe.decode.weights != "float32":
            raise UserError(f"decode.weights={recipe.decode.weights} is for a CPU; give --device cpu, or leave it out on a GPU.")
        return cls(model.to(device).eval(), tokenizers, recipe.decode)

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
        """The n_best of each text, best first, in the order given, decoded in batches of similar length.

        An empty text has one translation, the empty one.
        """
        results: list[list[Translation]] = [[NOTHING] for _ in texts]
        written = [row for row, text in enumerate(texts) if text.strip()]
        sources = [[*ids, EOS] for ids in self.tokenizers.source.encode_batch([texts[row] for row in written])]
        self._must_fit([texts[row] for row in written], sources)
        for batch in in_batches([len(ids) for ids in sources], self.decode.batch_tokens):
            for n, hypotheses in zip(batch, self._search([sources[n] for n in batch])):
                results[written[n]] = [self._translation(hypothesis) for hypothesis in hypotheses]
        return results

    def _must_fit(self, texts: Sequence[str], sources: list[list[int]]) -> None:
        room = longest(self.model.config)
        for text, ids in zip(texts, sources):
            if len(ids) > room:
                shown = text if len(text) <= 40 else f"{text[:40]}..."
                raise UserError(
                    f"{shown!r} is {len(ids):,} tokens long, its end counted, but this model has learned {room:,} positions; "
                    f"split it, or train with model.maximum_length={len(ids)} or model.position=sinusoidal."
                )

    def _search(self, sources: list[list[int]]) -> list[list[Hypothesis]]:
        c = self.decode
        source_BM, lengths_B = pad([np.array(ids) for ids in sources])
        limits = [min(len(ids) + ROOM, longest(self.model.config)) for ids in sources]
        maximum = torch.tensor(c.capped(limits), device=self.device)
        state = self.model.start(source_BM.to(self.device), lengths_B.to(self.device))
        return search(c, state, len(sources), sos=SOS, eos=EOS, maximum=maximum, banned=(PAD, SOS), sessions=self.sessions)

    def _translation(self, hypothesis: Hypothesis) -> Translation:
        text = self.tokenizers.target.decode(hypothesis.ids)
        return Translation(text, hypothesis.score, hypothesis.logprob, hypothesis.finished, hypothesis.ids)

    @torch.no_grad()
    def _look(self, texts: Sequence[str], translations: Sequence[Translation]) -> None:
        """One teacher-forced pass over the results: training and decoding give the same numbers, so this is what was attended."""
        sources = [[*ids, EOS] for ids in self.tokenizers.source.encode_batch(list(texts))]
        source_BM, lengths_B = pad([np.array(ids) for ids in sources])
        room = longest(self.model.config)  # an output cut off where learned positions end leaves none for what follows it
        target_BL, _ = pad([np.array([SOS, *translation.ids][:room]) for translation in translations])
        self.model(source_BM.to(self.device), lengths_B.to(self.device), target_BL.to(self.device))

    def attention(self, text: str, part: str = "cross") -> tuple[str, Alignment]:
        """The translation, and what each of its words attended to: part "cross", "decoder" or "encoder"."""
        with probe(self.model) as seen:
            (best, *_) = self._probed(text)
        names = [name for name in seen if name.endswith(".cross") == (part == "cross") and (part == "cross" or part in name)]
        weights = torch.stack([seen[name].weights()[0] for name in names]).cpu().numpy()
        source = [*self.tokenizers.source.tokens(self.tokenizers.source.encode(text)), "<eos>"]
        words = self.tokenizers.target.tokens(best.ids)
        room = longest(self.model.config)
        given, written = ["<sos>", *words][:room], [*words, "<eos>"][:room]
        queries, keys = {"cross": (written, source), "decoder": (written, given), "encoder": (source, source)}[part]
        return best.text, Alignment(f"{text} → {best.text}", tuple(queries), tuple(keys), weights, tuple(names))

    def _probed(self, text: str) -> list[Translation]:
        with not_recording(self.model):
            found = self.translate([text])[0]
        self._look([text], found[:1])
        return found


def longest(config: TransformerConfig) -> int:
    """Tokens a sequence may have, <sos> or <eos> counted: learned positions end, others go on."""
    return config.maximum_length if config.position == "learned" else sys.maxsize


def _must_be_as_trained(run: Run, recipe: Recipe) -> None:
    changed = [setting for setting in recipe.differences(run.recipe) if not setting.startswith(("data.", "decode."))]
    if changed:
        raise UserError(
            f"{changed[0]} cannot be set for a trained run; set decode.KEY=VALUE here, or train another run with it: "
            f"'regard train {run.folder / 'recipe.toml'} {changed[0].split(' ')[0]} --out ANOTHER_FOLDER'."
        )


def _fill(model: Transformer, weights: Checkpoint) -> None:
    try:
        model.load_state_dict(weights.tensors("model"))
    except RuntimeError:  # torch lists every tensor that differs
        raise UserError(
            f"the weights in {weights.path} do not fit the model that recipe.toml and the tokenizer of the run describe; one of "
            "them is from another run, or another version of Regard. Copy the whole run again, or train it again."
        ) from None


def build_model(recipe: Recipe, tokenizers: Tokenizers) -> Transformer:
    _, family = FAMILIES[recipe.model.family]
    return family(recipe.model, len(tokenizers.source), len(tokenizers.target), seed=recipe.train.seed)

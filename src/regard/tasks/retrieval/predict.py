"""A bot that replies with a reply of its training data: the one whose vector is nearest to the context's, by cosine.

What it keeps is `replies.jsonl` of its run, in the format of any dialogue: whoever edits that file changes what it can say. The
vectors of it all are `index.safetensors`, made when the run is first opened, and again when weights or replies have changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import torch

from regard.core.errors import UserError
from regard.core.files import write_whole
from regard.core.terminal import Emit, print_stderr
from regard.data.batching.labelled import SpecialTokens
from regard.data.batching.pairs import EncodedExchanges, Ragged
from regard.data.config import RetrievalConfig
from regard.data.sources import Pair
from regard.data.sources.dialogues import Exchange, as_typed, read_dialogues, recent
from regard.decode.config import DecodeConfig
from regard.families import family_of, marks_of
from regard.families.two_tower import Bag, Side, TwoTower, towers
from regard.metrics.dialogue import DialogueScores, candidates, score_replies
from regard.runs.folder import Run, Say
from regard.runs.load import cut_of, ready
from regard.runs.pretrained import InitCheckpoint
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe
from regard.runs.task import lazy
from regard.tasks.predictor import EvaluationResult, ReaderPredictor, open_model
from regard.tasks.word_init import known_rows
from regard.text.tokenizer import Tokenizer
from regard.training.checkpoint_files import fingerprint, read_tensors, write_tensors

REPLIES, INDEX = "replies.jsonl", "index.safetensors"
MANIFEST = "MANIFEST.json"


@dataclass(frozen=True)
class ReplyIndex:
    exchanges: tuple[Exchange, ...]

    @classmethod
    def of(cls, exchanges: Sequence[Exchange]) -> ReplyIndex:
        """Each once, in their order."""
        return cls(tuple(dict.fromkeys(exchanges)))

    @classmethod
    def load(cls, path: Path) -> ReplyIndex:
        if not path.is_file():
            raise UserError(
                f"There are no replies at {path}. Copy them back, or make them again by the same 'regard train' command."
            )
        return cls.of([Exchange(dialogue.turns[:-1], dialogue.turns[-1]) for dialogue in read_dialogues([str(path)])])

    def save(self, path: Path) -> None:
        """Write dialogues, one on each line, whose last turn is the reply."""
        lines = (json.dumps({"turns": [*e.context, e.reply]}, ensure_ascii=False) for e in self.exchanges)
        write_whole(path, "".join(f"{line}\n" for line in lines))

    def __len__(self) -> int:
        return len(self.exchanges)

    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.exchanges).encode()).hexdigest()


def indexed(run: Run, key: str, make: Callable[[], np.ndarray]) -> np.ndarray:
    """Vectors of the run by the key of what they were made of; made, and kept, where it has none or those of something else."""
    path = run.folder / INDEX
    name = hashlib.sha256(f"{fingerprint(run.weights().path / MANIFEST)} {key}".encode()).hexdigest()
    try:
        found = read_tensors(path).get(name) if path.is_file() else None
    except UserError:  # half a file: it is made again
        found = None
    if found is not None:
        return found.numpy()
    made = make()
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        write_tensors(temporary, {name: torch.from_numpy(made)})
        temporary.replace(path)
    except OSError as error:
        print_stderr(f"{path} cannot be written ({error.strerror}), so its vectors are computed again each time")
    return made


@dataclass(frozen=True)
class TurnReader:
    """Turns become start turn between turn end; a reply is a context of one turn."""

    tokenizer: Tokenizer
    marks: SpecialTokens
    turns: int
    room: int  # tokens of a text, marks counted

    @classmethod
    def of(cls, recipe: Recipe, tokenizer: Tokenizer) -> TurnReader:
        return cls(tokenizer, marks_of(recipe.model, tokenizer.roles), recipe.data.turns, cut_of(recipe))

    def encode(self, contexts: Sequence[Sequence[str]]) -> Ragged:
        """The last turns of each, the oldest left out where there is no room; of one too long for itself, the beginning."""
        texts = sorted({turn for context in contexts for turn in context})
        ids = dict(zip(texts, self.tokenizer.encode_batch(texts)))
        rows = []
        for context in contexts:
            kept = recent(context, self.turns, self.room - 1, lambda turn: len(ids[turn]))
            joined = chain.from_iterable([self.marks.between, *ids[turn]] for turn in kept)
            rows.append([self.marks.start, *list(joined)[1 : self.room - 1], self.marks.end])
        return Ragged(rows)

    def exchanges(self, found: Sequence[Exchange]) -> EncodedExchanges:
        replies = [exchange.reply for exchange in found]
        number = {reply: n for n, reply in enumerate(dict.fromkeys(replies))}
        read = self.encode([exchange.context for exchange in found]), self.encode([(reply,) for reply in replies])
        return EncodedExchanges(*read, np.array([number[reply] for reply in replies]))


class Found(NamedTuple):
    reply: str
    cosine: float


@dataclass(eq=False)
class Retriever(ReaderPredictor):
    model: TwoTower
    reader: TurnReader
    kept: ReplyIndex
    data: RetrievalConfig
    decode: DecodeConfig
    run: Run | None = None  # where vectors are kept

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> Retriever:
        model, tokenizer = open_model(run, recipe, device, lambda size: towers(recipe.model, size, recipe.objective.pooling))
        kept = ReplyIndex.load(run.folder / REPLIES)
        return cls(model, TurnReader.of(recipe, tokenizer), kept, recipe.data, recipe.decode, run)

    @classmethod
    def of_start(cls, start: InitCheckpoint, recipe: Recipe, kept: ReplyIndex, device: torch.device) -> Retriever:
        """A body that was trained for something else, as it is."""
        model = towers(recipe.model, start.vocabulary, recipe.objective.pooling)
        begin(model, start)
        model = ready(model, recipe.decode.weights, device)
        return cls(model, TurnReader.of(recipe, start.tokenizer), kept, recipe.data, recipe.decode)

    @property
    def vocabularies(self) -> dict[str, Vocabulary]:
        return super().vocabularies | {REPLIES: self.kept}

    @cached_property
    def entries(self) -> list[Exchange]:
        """Return what a context is compared with: every reply once, or every context of the training data."""
        if self.data.compare == "contexts":
            return [exchange for exchange in self.kept.exchanges if exchange.context]
        return list({exchange.reply: exchange for exchange in reversed(self.kept.exchanges)}.values())[::-1]

    @cached_property
    def index(self) -> np.ndarray:
        """y_ND, of length 1."""
        if self.run is None:
            return self._index()
        made_of = (self.kept.digest(), self.reader.turns, self.reader.room, self.data.compare, self.decode.weights)
        return indexed(self.run, str(made_of), self._index)

    def _index(self) -> np.ndarray:
        if self.data.compare == "contexts":
            return self.vectors("contexts", [exchange.context for exchange in self.entries])
        return self.vectors("replies", [(exchange.reply,) for exchange in self.entries])

    @torch.no_grad()
    def vectors(self, side: Side, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """x_ND, a row of length 1 for each in the order given."""
        found = np.zeros((len(texts), self.model.body.config.width), np.float32)
        if len(texts):
            for rows, ids_BL, lengths_B in self.padded(self.reader.encode(texts), self.decode.batch_tokens):
                found[rows] = self.model(ids_BL, lengths_B, side).float().cpu().numpy()
        return found

    def __call__(self, said: str | Sequence[str]) -> str:
        """The nearest reply to one turn, or to several of which the last is to be replied to."""
        context = as_typed(said) if isinstance(said, str) else tuple(said)
        if not context:
            raise UserError("nothing was said; give at least one turn to reply to.")
        return self.nearest([context], 1)[0][0].reply

    def nearest(self, contexts: Sequence[Sequence[str]], count: int) -> list[list[Found]]:
        """Return the `count` nearest replies to each context, all different, the nearest first."""
        found = []
        for x_D in self.vectors("contexts", contexts):
            cosines_N = self.index @ x_D
            best: dict[str, float] = {}
            for n in np.argsort(-cosines_N, kind="stable"):
                best.setdefault(self.entries[n].reply, float(cosines_N[n]))
                if len(best) == count:
                    break
            found.append([Found(*pair) for pair in best.items()])
        return found

    routes = lazy("regard.tasks.retrieval.serve:routes")

    def replies(self, turns: Sequence[str], say: Say) -> list[str]:
        if len(self.tokenizer.encode(turns[-1])) > (most := self.reader.room - 2):
            say(f"(of that, only the first {most:,} tokens are read)")
        found = self.nearest([turns], self.data.nearest)[0]
        return [found[0].reply] if self.data.nearest == 1 else [f"{one.cosine:.4f}\t{one.reply}" for one in found]

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return self.vectors("contexts", [as_typed(text) for text in texts])

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """The nearest reply to each text, whose turns have __eou__ between them; with data.nearest=5, five with their cosines."""
        said = [as_typed(text) for text in texts]
        answers = iter(self.nearest([context for context in said if context], self.data.nearest))
        for text, context in zip(texts, said):
            found = next(answers) if context else []
            if as_json:
                emit(json.dumps({"source": text, "outputs": [one._asdict() for one in found]}, ensure_ascii=False) + "\n")
            elif self.data.nearest == 1 or not found:
                emit(f"{found[0].reply if found else ''}\n")
            else:
                emit("".join(f"{one.cosine:.4f}\t{one.reply}\n" for one in found))

    def evaluate(self, test: Sequence[Pair]) -> EvaluationResult[DialogueScores]:
        contexts, replies = [as_typed(pair.source) for pair in test], [pair.target for pair in test]
        outputs = [found[0].reply for found in self.nearest(contexts, 1)]
        return EvaluationResult(score_replies(outputs, replies, self.cosines(contexts, replies)), outputs)

    def cosines(self, contexts: Sequence[Sequence[str]], replies: Sequence[str]) -> np.ndarray:
        """Return the cosines of each context and its candidates, the true reply first."""
        x_ND, y_ND = self.vectors("contexts", contexts), self.vectors("replies", [(reply,) for reply in replies])
        return np.einsum("nd,ncd->nc", x_ND, y_ND[candidates(replies)])


@torch.no_grad()
def begin(model: TwoTower, start: InitCheckpoint) -> None:
    """Load the body of a checkpoint; from word vectors, the vectors of known words, and zeros for the others."""
    if not family_of(model).has("word_vectors"):
        start.fill(model.body)
        return
    known = known_rows(start.tokenizer, start.name)
    cast(Bag, model.body).words.weight.zero_()[known.rows_R] = known.vectors_RD

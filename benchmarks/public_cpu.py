"""Generation on a CPU with T5, BART, Marian and LLaMA as they are public, the same weights: ours, Hugging Face's, CTranslate2's.

    REGARD_DATA=FOLDER python -m benchmarks.public_cpu --cells opus-mt-1 stories260K

Random weights in published shapes, and the trained ones of FOLDER/weights/stories260K. What the systems find in float32 is
compared first; the effect of 8 bits is printed. As many tokens as asked for are forced. CTranslate2 runs in processes of its own.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.cells import Cells, parser
from benchmarks.measure import alternate, row, versions
from benchmarks.peers import public
from benchmarks.peers.apart import Apart
from benchmarks.public_generate import CHECKED, CLOSE, Outputs, Pair, Prompts, alike
from regard.decode.algorithm import sessions_on
from regard.model.layers import pack

SHORTEST, LONGEST, OUTPUT, BEAM = 24, 48, 32, 4  # tokens that are read and written; texts of a beam
STORY = "stories260K"
COMPILED = "regard, compiled step"
SYSTEMS = ("regard", COMPILED, "regard int8", "hugging face", "ctranslate2", "ctranslate2 int8")
BARS = {  # floor and goal
    ("regard", "hugging face"): (1.5, 2.5),
    ("regard", "ctranslate2"): (0.8, 1.2),
    ("regard int8", "hugging face"): (1.5, 2.5),
    ("regard int8", "ctranslate2 int8"): (0.8, 1.2),
}
STORY_BARS = {(COMPILED, "hugging face"): (5.0, 5.0)}
PAIRS = [*BARS, *STORY_BARS, (COMPILED, "ctranslate2")]


class Cell(NamedTuple):
    shape: str
    batch: int


CELLS = {f"{shape}-{batch}": Cell(shape, batch) for shape in ("opus-mt", "bart-base", "t5-base") for batch in (1, 16)}
CELLS[STORY] = Cell(STORY, 1)


class Models(Pair):
    """Every system's form of one model."""

    source, output, beam, checked = (SHORTEST, LONGEST), OUTPUT, BEAM, CHECKED

    def __init__(self, folder: Path, tiny: bool, chosen: Sequence[str]) -> None:
        super().__init__(folder, tiny)
        shared = {id(weight): weight for weight in self.ours.parameters()}
        self.packed = {kind: copy.deepcopy(self.ours, dict(shared)) for kind in ("float32", "int8")}
        for kind, model in self.packed.items():
            pack(model, kind)  # type: ignore[arg-type]
        threads = torch.get_num_threads()
        kinds = {name: "int8" if "int8" in name else "float32" for name in chosen if name.startswith("ctranslate2")}
        self.apart = {name: Apart(_generator, folder, kind, threads) for name, kind in kinds.items()}
        for peer in self.apart.values():
            peer(("ready", ()))  # the folder has been read

    def by_ours(self, kind: str, batch: int, beam: int) -> Outputs:
        plain, self.ours = self.ours, self.packed[kind]
        try:
            return self.regard(batch, beam)
        finally:
            self.ours = plain

    def by_ctranslate2(self, name: str, batch: int, beam: int) -> Outputs:
        found: Outputs = self.apart[name](("write", (self.texts(batch), beam, self.written)))
        return found

    def texts(self, batch: int) -> list[list[int]]:
        """Return the prompts without padding."""
        prompts = self.prompts(batch)
        return [row_[:length] for row_, length in zip(prompts.ids_BM.tolist(), prompts.lengths_B.tolist())]

    @torch.no_grad()
    def logprobs(self, name: str, texts: Outputs) -> list[list[float]]:
        """Return a system's log-probability of each token of texts that follow the first prompts."""
        prompts, count = self.prompts(len(texts)), len(texts[0])
        if name in self.apart:
            found: list[list[float]] = self.apart[name](("score", (self.texts(len(texts)), texts)))
            return [row_[-(count + self.reads) :][:count] for row_ in found]  # with an end behind what was read
        written_BL = torch.tensor(texts)
        if self.reads:
            before_BL = torch.cat([torch.full((len(texts), 1), self.start), written_BL[:, :-1]], 1)
            given: dict[str, Any] = dict(input_ids=prompts.ids_BM, attention_mask=prompts.seen_BM, decoder_input_ids=before_BL)
            ours: tuple[Any, ...] = (prompts.ids_BM, prompts.lengths_B, before_BL)
        else:
            before_BL = torch.cat([prompts.ids_BM, written_BL[:, :-1]], 1)
            given, ours = dict(input_ids=before_BL), (before_BL,)
        peer = name == "hugging face"
        logits_BLV = self.theirs(**given).logits if peer else self.packed["int8" if "int8" in name else "float32"](*ours)
        logprob_BLV = logits_BLV[:, -count:].log_softmax(-1)
        return logprob_BLV.gather(2, written_BL[..., None]).squeeze(2).tolist()

    def off(self, name: str, texts: Outputs) -> float:
        """Return the largest difference of a log-probability from Hugging Face's, of the tokens of texts."""
        pairs = zip(self.logprobs(name, texts), self.logprobs("hugging face", texts))
        return max(abs(a - b) for one, other in pairs for a, b in zip(one, other))

    def systems(self, batch: int, beam: int, chosen: Sequence[str]) -> dict[str, Callable[[], Outputs]]:
        made: dict[str, Callable[[], Outputs]] = {
            "regard": partial(self.by_ours, "float32", batch, beam),
            "regard int8": partial(self.by_ours, "int8", batch, beam),
            "hugging face": partial(self.hugging_face, batch, beam),
        }
        made |= {name: partial(self.by_ctranslate2, name, batch, beam) for name in self.apart}
        return {name: made[name] for name in chosen if name in made}


class Story(Models):
    """A trained model of 260,000 parameters, which writes a published text from its first token by greedy search."""

    beam = checked = 1

    def __init__(self, folder: Path, tiny: bool, chosen: Sequence[str]) -> None:
        super().__init__(folder, tiny, chosen)
        self.first, *self.published = json.loads((folder.parent / "greedy.json").read_text("utf-8"))["greedy_ids"]
        self.written = len(self.published)
        self.compiled = sessions_on(torch.device("cpu"), compiled=True)

    def systems(self, batch: int, beam: int, chosen: Sequence[str]) -> dict[str, Callable[[], Outputs]]:
        made = super().systems(batch, beam, chosen) | {COMPILED: partial(self.by_compiled_step, batch)}
        return {name: made[name] for name in chosen}

    def by_compiled_step(self, batch: int) -> Outputs:
        self.sessions = self.compiled
        try:
            return self.by_ours("float32", batch, 1)
        finally:
            self.sessions = None

    def prompts(self, batch: int) -> Prompts:
        return Prompts(torch.full((batch, 1), self.first), torch.ones(batch, dtype=torch.long))


def _generator(folder: Path, kind: str, threads: int) -> Callable[[tuple[str, Any]], Any]:
    """Return what answers as CTranslate2, in a process of its own."""
    from benchmarks.peers.ctranslate_public import generator

    answer = generator(folder, kind, threads)
    return lambda asked: None if asked[0] == "ready" else answer(asked)


def models_of(shape: str, options: Any, cells: Cells) -> Models:
    """Return all forms of one model, compared with Hugging Face's."""
    with tempfile.TemporaryDirectory() as kept:
        if shape == STORY:
            made: Models = Story(Path(os.environ["REGARD_DATA"]) / "weights" / STORY / "hf", options.tiny, options.systems)
        else:
            made = Models(public.save(shape, Path(kept), tiny=options.tiny), options.tiny, options.systems)
    beam, off = made.beam, made.largest_difference()
    if not off <= CLOSE:
        raise SystemExit(f"{shape}: the systems disagree: a logit differs by {off}")
    expected = made.hugging_face(made.checked, beam)
    if isinstance(made, Story) and expected[0] != made.published:
        raise SystemExit("Hugging Face's text of stories260K is not the published one")
    for name, run in made.systems(made.checked, beam, [name for name in options.systems if name != "hugging face"]).items():
        found = run()
        difference = made.off(name, expected)
        if "int8" not in name and not difference <= CLOSE:
            raise SystemExit(f"{shape}: {name} gives a token another log-probability, by {difference}")
        columns = ["model", "largest difference of a log-probability", "the same tokens at their places"]
        line = [f"{shape}, {name}", f"{difference:.1e}", f"{alike(found, expected):.1%}"]
        cells.tell(f"Beside Hugging Face in float32, {CHECKED} texts, of stories260K one", columns, line)
    return made


def main(arguments: Sequence[str] = ()) -> None:
    options = parser(__doc__ or "", CELLS, SYSTEMS, 5).parse_args(arguments)
    if torch.cuda.is_available():
        raise SystemExit("this race is for a CPU; hide the GPU with CUDA_VISIBLE_DEVICES=")
    cells = Cells(
        "public_cpu",
        "T5, BART, Marian and LLaMA as they are public: generation on a CPU",
        f"Random weights: opus-mt, BART base and T5 base read {SHORTEST} to {LONGEST} tokens and write {OUTPUT}, beam {BEAM}. "
        "stories260K is trained and writes its published 256 tokens by greedy search; `decode.compile` compiles its step before.",
        versions("transformers", "ctranslate2"),
        options,
    )
    shapes = cache(partial(models_of, options=options, cells=cells))

    def run(name: str, cell: Cell) -> None:
        models = shapes(cell.shape)
        called = models.systems(cell.batch, models.beam, options.systems)
        seconds = alternate(called, options.rounds, warm_up=1)
        levels = {pair: levels for pair, levels in (STORY_BARS if cell.shape == STORY else BARS).items() if {*pair} <= {*called}}
        bars = {f"{ours} / {theirs}": {"floor": floor, "goal": goal} for (ours, theirs), (floor, goal) in levels.items()}
        pairs = [pair for pair in PAIRS if {*pair} <= {*called}]
        cells.add(row(name, "tokens/s", cell.batch * models.written, seconds, bars=bars, pairs=pairs))

    cells.each({name: partial(run, name, cell) for name, cell in CELLS.items()})


if __name__ == "__main__":
    main(sys.argv[1:])

"""Generation with T5, BART and LLaMA as they are public, the same weights: ours against Hugging Face's.

    python -m benchmarks.public_generate --cells t5-greedy-1 bart-beam-16 --rounds 5

Random weights in published shapes, as a folder of transformers that our import opens. As many tokens as asked for are forced. In
float32 both must find the same logits before any clock runs, and the texts of a few prompts are compared; on a GPU bf16 is timed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.cells import Cells, parser
from benchmarks.measure import alternate, row, versions
from benchmarks.peers import public
from benchmarks.steps import CUDA, DEVICE
from regard.decode.algorithm import sessions_on
from regard.decode.config import GREEDY, BeamSettings
from regard.decode.request import SearchRequest
from regard.decode.search import search

SHORTEST, LONGEST, OUTPUT, BEAM = 64, 128, 64, 4  # tokens that are read and written; texts of a beam
PROMPT, WRITTEN = 32, 256  # tokens of a decoder alone
CHECKED, CLOSE = 4, 1e-3  # texts compared in float32; largest difference of a logit
FIRST = 3  # ids below have a part to play
SYSTEMS = ("regard", "hugging face", "hugging face, static cache")
Outputs = list[list[int]]


class Cell(NamedTuple):
    shape: str
    batch: int
    beam: int  # 1: greedy
    floor: float
    goal: float
    static: bool = False  # is the static cache documented, and compared with?


CELLS = {
    "t5-greedy-1": Cell("t5-1.1-base", 1, 1, 5, 12),
    "t5-greedy-32": Cell("t5-1.1-base", 32, 1, 5, 12),
    "t5-beam-1": Cell("t5-1.1-base", 1, BEAM, 5, 10),
    "t5-beam-16": Cell("t5-1.1-base", 16, BEAM, 5, 10),
    "bart-greedy-1": Cell("bart-large", 1, 1, 5, 12),
    "bart-beam-1": Cell("bart-large", 1, BEAM, 5, 10),
    "bart-beam-16": Cell("bart-large", 16, BEAM, 5, 10),
    "llama-greedy-1": Cell("llama-124m", 1, 1, 5, 8, static=True),
}


class Prompts(NamedTuple):
    ids_BM: Tensor
    lengths_B: Tensor

    @property
    def seen_BM(self) -> Tensor:
        return (torch.arange(self.ids_BM.shape[1], device=DEVICE) < self.lengths_B[:, None]).long()


class Pair:
    """Both models of a shape: in float32 until they are found to agree, then on a GPU in bf16."""

    source, output = (SHORTEST, LONGEST), OUTPUT  # tokens

    def __init__(self, folder: Path, tiny: bool) -> None:
        self.theirs, self.ours = public.theirs(folder, DEVICE), public.ours(folder, DEVICE)
        self.sessions, config = sessions_on(DEVICE), self.theirs.config
        self.reads, self.vocabulary = bool(config.is_encoder_decoder), config.vocab_size
        self.start, self.end = getattr(config, "decoder_start_token_id", None), config.eos_token_id
        self.pad = config.pad_token_id
        self.banned: tuple[int, ...] = (self.pad,) if config.model_type == "marian" else ()
        self.written = self.output if self.reads else WRITTEN
        if tiny:
            self.written //= 8

    def prompts(self, batch: int) -> Prompts:
        """Return sources of many lengths, padded; or prompts of one length, as every token of a decoder alone is a position."""
        draw = torch.Generator().manual_seed(1)
        least, most = self.source if self.reads else (PROMPT, PROMPT)
        lengths_B = torch.randint(least, most + 1, (batch,), generator=draw)
        ids_BM = torch.randint(FIRST, self.vocabulary - len(self.banned), (batch, int(lengths_B.max())), generator=draw)
        found = Prompts(ids_BM.to(DEVICE), lengths_B.to(DEVICE))
        return found._replace(ids_BM=found.ids_BM.masked_fill(found.seen_BM == 0, self.pad))

    @torch.no_grad()
    def regard(self, batch: int, beam: int) -> Outputs:
        ids_BM, lengths_B = self.prompts(batch)
        first: Any = self.start
        if not self.reads:
            first, ids_BM, lengths_B = ids_BM[:, -1], ids_BM[:, :-1], lengths_B - 1
        read = self.ours.start(ids_BM, lengths_B)
        request = SearchRequest(
            encoded=read,
            sos=first,
            eos=self.end,
            limits=[self.written] * batch,
            minimum_length=self.written,
            method=GREEDY if beam == 1 else BeamSettings(beam=beam, length_penalty=0.0),
            banned=self.banned,
            sessions=self.sessions,
        )
        return [found[0].ids for found in search(request)]

    @torch.no_grad()
    def hugging_face(self, batch: int, beam: int, **cache: str) -> Outputs:
        prompts = self.prompts(batch)
        lengths = dict(min_new_tokens=self.written, max_new_tokens=self.written)
        found = self.theirs.generate(
            input_ids=prompts.ids_BM,
            attention_mask=prompts.seen_BM,
            num_beams=beam,
            do_sample=False,
            **({"length_penalty": 0.0} if beam > 1 else {}),
            **lengths,
            **cache,
        )
        return found[:, -self.written :].tolist()

    @torch.no_grad()
    def largest_difference(self) -> float:
        """Return the largest difference of a logit, in the precision that both are in."""
        prompts = self.prompts(CHECKED)
        target_BL = prompts.ids_BM[:, : self.source[0] // 2].flip(1)
        if self.reads:
            expected = self.theirs(
                input_ids=prompts.ids_BM, attention_mask=prompts.seen_BM, decoder_input_ids=target_BL, use_cache=False
            )
            found = self.ours(prompts.ids_BM, prompts.lengths_B, target_BL)
        else:
            expected, found = self.theirs(input_ids=prompts.ids_BM, use_cache=False), self.ours(prompts.ids_BM)
        return float((found.float() - expected.logits.float()).abs().max())


def alike(found: Outputs, expected: Outputs) -> float:
    """Return the share of tokens that are the same at the same place."""
    pairs = [(a, b) for one, other in zip(found, expected) for a, b in zip(one, other)]
    return sum(a == b for a, b in pairs) / len(pairs)


def pair_of(shape: str, tiny: bool, cells: Cells) -> Pair:
    """Return both models, compared in float32, in the precision that is timed."""
    with tempfile.TemporaryDirectory() as folder:
        made = Pair(public.save(shape, Path(folder), tiny=tiny), tiny)
    off = made.largest_difference()
    if not off <= CLOSE:
        raise SystemExit(f"{shape}: the systems disagree: a logit differs by {off}")
    shares = [alike(made.regard(CHECKED, beam), made.hugging_face(CHECKED, beam)) for beam in (1, BEAM)[: 1 + made.reads]]
    if CUDA:
        made.ours, made.theirs, made.sessions = made.ours.bfloat16(), made.theirs.bfloat16(), sessions_on(DEVICE)
    found = [f"{off:.1e}", *(f"{share:.1%}" for share in shares)]
    cells.tell(
        "The same in float32", ["shape", "largest difference of a logit", "greedy tokens", "tokens of beam 4"], [shape, *found]
    )
    return made


def systems(pair: Pair, cell: Cell, chosen: Sequence[str]) -> dict[str, Callable[[], Outputs]]:
    found: dict[str, Callable[[], Outputs]] = {
        "regard": partial(pair.regard, cell.batch, cell.beam),
        "hugging face": partial(pair.hugging_face, cell.batch, cell.beam),
    }
    if cell.static:
        found["hugging face, static cache"] = partial(pair.hugging_face, cell.batch, cell.beam, cache_implementation="static")
    return {name: run for name, run in found.items() if name in chosen}


def main(arguments: Sequence[str] = ()) -> None:
    options = parser(__doc__ or "", CELLS, SYSTEMS, 5).parse_args(arguments)
    cells = Cells(
        "public_generate",
        "T5, BART and LLaMA as they are public: generation",
        f"Random weights. T5 1.1 base and BART large read {SHORTEST} to {LONGEST} tokens and write {OUTPUT}; "
        f"LLaMA, 124M, goes on from {PROMPT} by {WRITTEN}. bf16 on a GPU.",
        versions("transformers"),
        options,
    )
    shapes = cache(partial(pair_of, tiny=options.tiny, cells=cells))

    def run(name: str, cell: Cell) -> None:
        pair = shapes(cell.shape)
        called = systems(pair, cell, options.systems)
        outputs = {system: call() for system, call in called.items()}
        if {"regard", "hugging face"} <= outputs.keys():
            same = alike(outputs["regard"], outputs["hugging face"])
            cells.tell("The same in the precision that is timed", ["cell", "tokens at their places"], [name, f"{same:.1%}"])
        seconds = alternate(called, options.rounds, warm_up=1)
        last = "hugging face, static cache" if cell.static else "hugging face"
        bars = {f"regard / {last}": {"floor": cell.floor, "goal": cell.goal}} if {"regard", last} <= called.keys() else {}
        pairs = [("regard", other) for other in called if other != "regard"] if "regard" in called else []
        cells.add(row(name, "tokens/s", cell.batch * pair.written, seconds, bars=bars, pairs=pairs))

    cells.each({name: partial(run, name, cell) for name, cell in CELLS.items()})


if __name__ == "__main__":
    main(sys.argv[1:])

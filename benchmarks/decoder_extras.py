"""Speculative decoding, smaller KV caches and shared prefixes, each beside plain decoding of the same model.

A small GPT is trained for a minute on Python's own reference, and a smaller one beside it as a draft. Texts are compared first:
what proposes must not change them, but for rounding. One text at a time, then a batch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import Row, Table, alternate, row, write
from benchmarks.steps import CUDA
from regard.commands.train import train_run
from regard.decode.compact_cache import CompactInput
from regard.decode.prefix_cache import start_with_common_prefix
from regard.families.gpt import GPT, GPTConfig
from regard.runs.recipe import load_recipe
from regard.tasks.language_model.predict import TextGenerator, Written
from regard.tasks.registry import open_run

DEVICE = torch.device("cuda" if CUDA else "cpu")
STEPS, TOKENS, ROUNDS = (600, 192, 15) if CUDA else (150, 64, 5)
SIZES = {
    "model": ["model.width=256", "model.heads=8", "model.layers=4", "model.feedforward=1024"],
    "draft": ["model.width=64", "model.heads=2", "model.layers=1", "model.feedforward=128"],
}
PLAIN = ["decode.sliding_window=false", f"decode.maximum_length={TOKENS}", f"decode.minimum_length={TOKENS - 1}"]
PROMPTS = ["The following example shows how a function", "A class definition is an executable statement. It", "If the expression"]


def trained(into: Path, name: str) -> Path:
    settings = [*SIZES[name], f"train.steps={STEPS}", "train.tokens_per_batch=512", "data.test=", "text.size=1000"]
    settings += [
        f"train.validate_every={STEPS}",
        f"train.checkpoint_every={STEPS}",
        "train.precision=fp32",
        "train.compile=false",
    ]
    train_run(load_recipe("gpt", settings), into / name, DEVICE, lambda line: None)
    return into / name


def writer(run: Path, *settings: str) -> TextGenerator:
    found = open_run(run, str(DEVICE), [*PLAIN, *settings])
    assert isinstance(found, TextGenerator)
    return found


def speculation(run: Path, draft: Path) -> tuple[list[Row], list[list[str]]]:
    """Rows of speeds, and how many tokens came from a pass."""
    ways = {"plain": [], "lookup": ["decode.prompt_lookup=5"], "draft": [f"decode.draft={draft}"]}
    rows, told = [], []
    for search in ("greedy", "sample"):
        chosen = [f"decode.search={search}"] + (["decode.temperature=0.8", "decode.top_p=1"] if search == "sample" else [])
        writers = {name: writer(run, *chosen, *way) for name, way in ways.items()}
        for prompts in ([PROMPTS[0]], PROMPTS * 3):
            texts = {name: [each[0] for each in w.write(prompts)] for name, w in writers.items()}
            same = {name: _same(found, texts["plain"], search) for name, found in texts.items()}
            count = sum(len(one.ids) for one in texts["plain"])
            case = f"{search}, {len(prompts)} text{'s' * (len(prompts) > 1)}"
            for name, each in writers.items():
                if (used := each.speculation) is not None:
                    before = used.written, used.read
                    each.write(prompts)
                    told.append(
                        [
                            case,
                            name,
                            f"{(used.written - before[0]) / (used.read - before[1]):.2f}",
                            f"{same[name]} of {len(prompts)}",
                        ]
                    )
            calls = {name: lambda each=each, prompts=prompts: each.write(prompts) for name, each in writers.items()}
            pairs = [(name, "plain") for name in ways if name != "plain"]
            rows.append(row(case, "tokens/s", count, alternate(calls, ROUNDS, 1), pairs=pairs))
    return rows, told


def _same(found: Sequence[Written], plain: Sequence[Written], search: str) -> int:
    """Count the texts that are those of plain decoding. A drawn one may part from it by rounding, after equal probabilities."""
    for one, other in zip(found, plain):
        alike = next((n for n, (a, b) in enumerate(zip(one.ids, other.ids)) if a != b), len(other.ids))
        off = max((abs(a.logprob - b.logprob) for a, b in zip(one.tokens[:alike], other.tokens[:alike])), default=0.0)
        if off > 1e-3 or (search == "greedy" and one.ids != other.ids):
            raise SystemExit(f"{search}: a way of decoding wrote another text: {alike} tokens alike, off by {off}")
        if alike < len(other.ids):
            print(
                f"{search}: {alike} tokens alike, off by {off:.1e}; then {one.tokens[alike]} for {other.tokens[alike]}",
                flush=True,
            )
    return sum(one.ids == other.ids for one, other in zip(found, plain))


def held(state: Any) -> int:
    return sum(tensor.nbytes for cache in state.caches for tensor in vars(cache).values() if isinstance(tensor, torch.Tensor))


@torch.no_grad()
def caches() -> tuple[list[Row], list[list[str]]]:
    """Steps after a prompt, of a model that sees a window of 128 tokens."""
    config = GPTConfig(width=256, heads=8, layers=4, feedforward=1024, visibility="window(127)", position="rotary", dropout=0.0)
    model, prompt, steps = GPT(config, 1000, seed=1).to(DEVICE).eval(), 1024, 32
    ids_BL = torch.randint(4, 1000, (4, prompt), device=DEVICE, generator=torch.Generator(DEVICE).manual_seed(1))
    read = model.start(ids_BL, torch.full((4,), prompt, device=DEVICE))
    inputs = {"plain": read, "window": CompactInput(read, "window"), "int8": CompactInput(read, "int8")}
    held_bytes, calls, logits = dict[str, int](), dict[str, Callable[[], object]](), dict[str, torch.Tensor]()
    for name, given in inputs.items():

        def run(given: Any = given, name: str = name) -> None:
            state = given.make_state(4, 1, steps, fixed=CUDA)
            state.load(given, [steps] * 4)
            token_SW = ids_BL[:, -1:]
            for _ in range(steps):
                state.grow(1)
                logits[name] = state.step(token_SW)
            held_bytes[name] = held(state)

        calls[name] = run
    pairs = [("window", "plain"), ("int8", "plain")]
    rows = [row(f"4 texts after {prompt:,} tokens", "tokens/s", 4 * steps, alternate(calls, ROUNDS, 1), pairs=pairs)]
    deviation = f"{logits['plain'].std():.2f}"
    off = {name: (found - logits["plain"]).abs().max() for name, found in logits.items()}
    table = [[name, f"{held_bytes[name] / 2**20:.2f} MiB", f"{off[name]:.1e}", deviation] for name in inputs]
    return rows, table


@torch.no_grad()
def prefixes() -> list[Row]:
    """Prompts of a batch that begin alike: encoding them."""
    config = GPTConfig(width=256, heads=8, layers=6, feedforward=1024, dropout=0.0)
    model, (rows, common, own) = GPT(config, 1000, seed=1).to(DEVICE).eval(), (16, 448, 32)
    draw = torch.Generator(DEVICE).manual_seed(1)
    begin = torch.randint(4, 1000, (1, common), device=DEVICE, generator=draw).expand(rows, -1)
    ids_BL = torch.cat([begin, torch.randint(4, 1000, (rows, own), device=DEVICE, generator=draw)], 1)
    lengths_B = torch.full((rows,), common + own, device=DEVICE)
    one, other = model.start(ids_BL, lengths_B), start_with_common_prefix(model, ids_BL, lengths_B)
    torch.testing.assert_close(other.prompts[-1][0], one.prompts[-1][0], atol=1e-3, rtol=1e-3)
    calls = {
        "shared": lambda: start_with_common_prefix(model, ids_BL, lengths_B),
        "plain": lambda: model.start(ids_BL, lengths_B),
    }
    case = f"{rows} prompts of {common + own} tokens, {common} of them common"
    return [row(case, "prompt tokens/s", rows * (common + own), alternate(calls, ROUNDS, 1))]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        rows, told = speculation(trained(Path(name), "model"), trained(Path(name), "draft"))
    more, kept = caches()
    tables: list[Table] = [
        {
            "title": "Tokens of a text that come from one pass over it",
            "columns": ["", "proposed by", "tokens", "same texts"],
            "rows": told,
        },
        {"title": "KV cache", "columns": ["", "held", "largest difference of a logit", "deviation of logits"], "rows": kept},
    ]
    write(
        "decoder_extras",
        title="Speculative decoding, smaller KV caches, shared prefixes",
        setting=f"A GPT of 4 layers, width 256, trained {STEPS} steps on text; draft of 1 layer, width 64, 4 tokens "
        "at a time; lookup of 5. Caches: width 256, random weights, a window of 128 tokens.",
        rows=[*rows, *more, *prefixes()],
        versions={},
        tables=tables,
    )


if __name__ == "__main__":
    main()

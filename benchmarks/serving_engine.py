"""The engine of the server: how many requests a second with 1, 16 and 64 clients, beside one at a time without an engine.

The demo translator, trained for 250 steps and searching with its beam of 4, and a small GPT that writes 32 tokens after 32.
Each client submits its next request when the last one is done. Beforehand, 500 mixed requests are served together, and their
texts compared with those written one at a time: greedy, sampled and beams, several samples, banned repetitions.

    python -m benchmarks.serving_engine [RUN]        RUN: a translator that is trained already
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer as RawTokenizer
from tokenizers import models, pre_tokenizers

from benchmarks.measure import Row, Table, alternate, row, write
from benchmarks.steps import CUDA, DEVICE
from regard.commands.train import train_run
from regard.data.builtin import builtin_rows
from regard.decode.config import GREEDY, BeamSettings, DecodeConfig, Sampling
from regard.families.gpt import GPT, GPTConfig
from regard.runs.recipe import load_recipe
from regard.serve.engine import Engine
from regard.serve.settings import writer_of
from regard.serve.work import EngineSettings, Generate, Ticket
from regard.tasks.language_model.predict import TextGenerator
from regard.tasks.registry import open_run
from regard.text.tokenizer import Tokenizer

CLIENTS, REQUESTS, MIXED, ROUNDS = (1, 16, 64), 64, 500, 2
VOCABULARY, PROMPT, OUTPUT = 2000, 32, 32


def translator(folder: Path) -> Any:
    if len(sys.argv) > 1:
        return open_run(sys.argv[1], str(DEVICE))
    train_run(
        load_recipe("translate", ["train.steps=250", "train.validate_every=250", "train.checkpoint_every=250", "data.test="]),
        folder / "run",
        DEVICE,
        lambda line: None,
    )
    return open_run(folder / "run", str(DEVICE))


def small_gpt() -> TextGenerator:
    """Random weights; every text has the same length."""
    words = RawTokenizer(models.WordLevel({f"w{n}": n for n in range(VOCABULARY)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    config = GPTConfig(width=256, heads=8, layers=4, feedforward=1024, maximum_length=256, dropout=0.0)
    decode = DecodeConfig(search="greedy", maximum_length=OUTPUT)
    return TextGenerator(GPT(config, VOCABULARY, 1).to(DEVICE).eval(), Tokenizer(words), decode, 256)


def served(predictor: Any, works: Sequence[Generate], clients: int) -> list[Ticket]:
    """Do all work with so many requests at a time."""
    engine, tickets = Engine(predictor, EngineSettings(rows=64, queue=clients), start=False), list[Ticket]()
    waiting, active = list(reversed(works)), list[Ticket]()
    while waiting or active:
        while waiting and len(active) < clients:
            active.append(engine.submit(waiting.pop()))
            tickets.append(active[-1])
        engine.step()
        active = [ticket for ticket in active if not ticket.done]
    return tickets


def alone(predictor: Any, work: Generate) -> list[str]:
    """Return what the run's own predictor writes of one request."""
    changed = writer_of(predictor, work, EngineSettings())
    found = changed.write([work.text])[0] if isinstance(changed, TextGenerator) else changed.translate([work.text])[0]  # type: ignore[attr-defined]
    return [one.text for one in found]


def mixed(texts: Sequence[str], seed: int = 5) -> list[Generate]:
    """Return requests of many kinds."""
    rng = random.Random(seed)
    methods: list[dict[str, Any]] = [
        {"method": GREEDY},
        {"method": GREEDY, "settings": {"no_repeat_ngram": 3}},
        {"method": Sampling(temperature=0.8), "n": 2},
        {"method": Sampling(top_p=0.9, top_k=40)},
        {"method": Sampling(temperature=1.0, repetition_penalty=1.2)},
        {"method": BeamSettings(beam=4)},
        {"method": BeamSettings(beam=2, length_penalty=1.0), "n": 2},
    ]
    return [
        Generate(text=rng.choice(texts), max_tokens=rng.randint(8, 40), seed=rng.randrange(1 << 30), **rng.choice(methods))
        for _ in range(MIXED)
    ]


def differing(predictor: Any, texts: Sequence[str]) -> int:
    works = mixed(texts)
    found = [[sample.text for sample in ticket.result(0).samples] for ticket in served(predictor, works, 64)]
    return sum(one != alone(predictor, work) for one, work in zip(found, works))


def speeds(name: str, predictor: Any, works: Sequence[Generate], one: Callable[[], object]) -> Row:
    """Requests a second of the engine by its clients, and of the run's own predictor, one request at a time."""
    ways: dict[str, Callable[[], object]] = {
        f"engine, {clients} client{'s' * (clients > 1)}": partial(served, predictor, works, clients) for clients in CLIENTS
    }
    ways["one at a time"] = one
    pairs = [(f"engine, {clients} clients", way) for clients in CLIENTS[1:] for way in ("engine, 1 client", "one at a time")]
    return row(name, "requests/s", len(works), alternate(ways, ROUNDS, 1), pairs=pairs)


def main() -> None:
    rows, differences = list[Row](), list[list[str]]()
    with tempfile.TemporaryDirectory() as folder:
        translates = translator(Path(folder))
        sources = [str(source) for source, *_ in builtin_rows("english-french", "test")[:REQUESTS]]
        writes, draw = small_gpt(), random.Random(1)
        prompts = [" ".join(f"w{draw.randrange(1, VOCABULARY)}" for _ in range(PROMPT)) for _ in range(REQUESTS)]
        for name, predictor, texts in (("translator", translates, sources), ("small GPT", writes, prompts)):
            differences.append([name, str(MIXED), str(differing(predictor, texts))])
        works = [Generate(text=text) for text in sources]
        rows.append(speeds("translator, beam 4", translates, works, lambda: [translates.translate([text]) for text in sources]))
        works = [Generate(text=text, max_tokens=OUTPUT, minimum_tokens=OUTPUT - 1) for text in prompts]
        rows.append(speeds("small GPT, greedy, 32 tokens", writes, works, lambda: [alone(writes, work) for work in works]))
    write(
        "serving_engine",
        title="The engine of the server",
        setting=f"Closed loop, {REQUESTS} requests, no HTTP; {'one GPU' if CUDA else f'{torch.get_num_threads()} thread(s)'}; "
        f"load of the machine, its other users counted, {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores.",
        rows=rows,
        versions={},
        tables=[
            Table(
                title="Texts that differ from those written one at a time",
                columns=["model", "mixed requests", "different"],
                rows=differences,
            )
        ],
    )


if __name__ == "__main__":
    main()

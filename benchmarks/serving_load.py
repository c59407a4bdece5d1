"""Servers under load through HTTP, with 1, 16, 64 and 256 clients: ours, CTranslate2 behind FastAPI, transformers behind FastAPI.

    python -m benchmarks.serving_load [--run RUN] [--seconds 60] [--cells CELL ...] [--clients N ...]
    python -m benchmarks.serving_load --cells 'translator / regard' --clients 64 --requests 100000

RUN is a translator that is trained already; without it the demo translator is trained for 250 steps. It searches with its beam
of 4 and without a length penalty, which every engine computes in the same way. GPT-2 has its shape of 124M parameters, random
weights and words of its own; it writes 4 to 12 tokens. Every server is a process of its own and is asked for each text alone
first: texts that differ from ours end the cell. Under load each answer is compared with that text. With `--requests` a cell has
so many requests instead of a time, and the memory of the server is written down after each tenth of them. What was measured is
recorded at once; `--missing` measures only what is not recorded.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.cells import Cells
from benchmarks.load_clients import Found, Load, Request, each_alone
from benchmarks.measure import Bar, Row, versions
from benchmarks.server_process import resident, started
from regard.commands.export_engine import export_to_ctranslate2
from regard.commands.train import train_run
from regard.data.builtin import builtin_rows
from regard.runs.recipe import load_recipe

CLIENTS, MANY, TEXTS, PROMPTS = (1, 16, 64, 256), 64, 64, 16
STEPS = 250
TRANSLATOR, GPT2 = "translator, beam 4", "GPT-2 124M, 4 to 12 tokens"
LOAD, MEMORY = "Load", "Memory of the server"
COLUMNS = ["cell", "requests/s", "p50", "p99", "answered", "lost", "wrong", "memory", "clients' own share of a core"]
BARS: dict[str, dict[str, Bar]] = {
    TRANSLATOR: {
        f"regard, {MANY} clients / regard, 1 client": {"floor": 3.0, "goal": 6.0},
        f"regard, {MANY} clients / CTranslate2, {MANY} clients": {"floor": 0.9, "goal": 1.2},
    },
    GPT2: {f"regard, {MANY} clients / transformers, {MANY} clients": {"floor": 1.5, "goal": 3.0}},
}
EVEN: Bar = {"floor": 0.25}  # p99 is at most 4 times p50


class Shape(NamedTuple):
    """The sizes of the GPT-2; the usual ones are those of 124M parameters."""

    vocabulary: int = 50257
    width: int = 768
    layers: int = 12
    heads: int = 12


class Models:
    """Folders of the models that are served, each made when it is first needed, and the requests to them."""

    def __init__(self, place: Path, run: Path | None, shape: Shape) -> None:
        self.place, self.given, self.shape = place, run, shape

    @cached_property
    def run(self) -> Path:
        if self.given is not None:
            return self.given
        settings = [f"train.{name}={STEPS}" for name in ("steps", "validate_every", "checkpoint_every")]
        to = self.place / "translator"
        train_run(load_recipe("translate", [*settings, "data.test="]), to, torch.device("cpu"), lambda line: None)
        return to

    @cached_property
    def exported(self) -> Path:
        export_to_ctranslate2(self.run, self.place / "ctranslate2", "float32", print)
        return self.place / "ctranslate2"

    @cached_property
    def gpt2(self) -> Path:
        """Write GPT-2 with random weights, and a tokenizer that has a word for each of its tokens."""
        from tokenizers import Tokenizer, models, pre_tokenizers
        from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

        to, end, c = self.place / "gpt2", "<|endoftext|>", self.shape
        torch.manual_seed(0)
        sizes: dict[str, Any] = dict(vocab_size=c.vocabulary, n_embd=c.width, n_layer=c.layers, n_head=c.heads)
        GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)).save_pretrained(to)
        words = Tokenizer(models.WordLevel({f"w{n}" if n else end: n for n in range(c.vocabulary)}, unk_token=end))
        words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        PreTrainedTokenizerFast(tokenizer_object=words, eos_token=end, bos_token=end, unk_token=end).save_pretrained(to)
        return to

    @cached_property
    def requests(self) -> Mapping[str, list[Request]]:
        draw, sources = random.Random(1), [str(source) for source, *_ in builtin_rows("english-french", "test")]
        prompts = [[f"w{draw.randrange(1, self.shape.vocabulary)}" for _ in range(draw.randint(4, 16))] for _ in range(PROMPTS)]
        return {
            TRANSLATOR: [
                Request("/v1/translate", {"text": text, "beam": 4, "length_penalty": 0.0}, translated)
                for text in draw.sample(sources, min(TEXTS, len(sources)))
            ],
            GPT2: [
                Request("/v1/completions", {"prompt": " ".join(words), "max_tokens": draw.randint(4, 12), **GREEDY}, completed)
                for words in prompts
            ],
        }


GREEDY = {"model": "gpt2", "temperature": 0}


def translated(content: Any) -> str:
    return str(content["outputs"][0][0]["text"])


def completed(content: Any) -> str:
    return str(content["choices"][0]["text"]).strip()  # ours begins with the space between prompt and text


class System(NamedTuple):
    """One server of one model."""

    model: str
    name: str
    command: Callable[[Models], list[str]]
    clients: Sequence[int] = (MANY,)  # that it is asked by unless others are typed


def module(name: str, folder: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.peers.{name}", str(folder), *options]


def regard(folder: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "regard", "serve", str(folder), "--device", "cpu", "--quiet", *options]


SYSTEMS = {
    "translator / regard": System(TRANSLATOR, "regard", lambda models: regard(models.run), CLIENTS),
    "translator / regard, 2 workers": System(
        TRANSLATOR, "regard, 2 workers", lambda models: regard(models.run, "--workers", "2")
    ),
    "translator / CTranslate2": System(TRANSLATOR, "CTranslate2", lambda models: module("ctranslate_server", models.exported)),
    "translator / CTranslate2, collected": System(
        TRANSLATOR, "CTranslate2, collected", lambda models: module("ctranslate_server", models.exported, "--collect")
    ),
    "GPT-2 / regard": System(GPT2, "regard", lambda models: regard(models.gpt2)),
    "GPT-2 / transformers": System(GPT2, "transformers", lambda models: module("transformers_server", models.gpt2)),
}


class Race:
    """The cells that were asked for, one server after the other."""

    def __init__(self, models: Models, options: argparse.Namespace, cells: Cells) -> None:
        self.models, self.options, self.cells = models, options, cells
        self.expected: dict[str, list[str]] = {}

    def texts(self, model: str) -> list[str]:
        """Return what our server answers to each request alone."""
        if model not in self.expected:
            ours = next(system for system in SYSTEMS.values() if (system.model, system.name) == (model, "regard"))
            with self.server(ours) as (_, port):
                self.expected[model] = each_alone(port, self.models.requests[model])
        return self.expected[model]

    def server(self, system: System) -> AbstractContextManager[Any]:
        return started(system.command(self.models))

    def measure(self, system: System) -> None:
        """Start a server, compare its texts, and put it under each load that is not recorded."""
        table = self.cells.tables.get(LOAD)
        known = {line[0] for line in table["rows"]} if table and self.options.missing else set()
        wanted = [n for n in self.options.clients or system.clients if self.options.requests or cell_name(system, n) not in known]
        if not wanted:
            print(f"{system.model}, {system.name}: recorded before", flush=True)
            return
        requests = self.models.requests[system.model]
        expected = None if system.name == "regard" else self.texts(system.model)
        with self.server(system) as (process, port):
            found = each_alone(port, requests)
            expected = self.expected.setdefault(system.model, found) if expected is None else expected
            if different := sum(one != other for one, other in zip(found, expected)):
                raise ValueError(f"{different} of {len(found)} texts differ from ours")
            load = Load(port, requests, expected)
            for clients in wanted:
                if self.options.requests:
                    self.memory(system, clients, load, process.pid)
                else:
                    self.load(system, clients, load, process.pid)

    def load(self, system: System, clients: int, load: Load, pid: int) -> None:
        before = resident(pid)
        found = load.run(clients, seconds=self.options.seconds, warm_up=self.options.seconds / 10)
        name = cell_name(system, clients)
        self.cells.tell(LOAD, COLUMNS, [name, *shown(found), f"{before:.0f} to {resident(pid):.0f} MB", share_of_core(found)])
        self.cells.add(with_speed(row_of(self.cells, system.model), asked_by(system, clients), found))
        if clients == MANY and system.name == "regard":
            self.cells.add(times(name, found))

    def memory(self, system: System, clients: int, load: Load, pid: int) -> None:
        megabytes = list[float]()
        found = load.run(clients, most=self.options.requests, every=lambda number: megabytes.append(resident(pid)))
        megabytes.append(resident(pid))
        columns = ["cell", "requests", "lost", "wrong", "requests/s", "MB after each tenth"]
        line = [f"{found.sent:,}", f"{found.lost:,}", f"{found.wrong:,}", f"{found.throughput:.1f}"]
        self.cells.tell(MEMORY, columns, [cell_name(system, clients), *line, ", ".join(f"{one:.0f}" for one in megabytes)])


def asked_by(system: System, clients: int) -> str:
    return f"{system.name}, {clients} client{'s' * (clients > 1)}"


def cell_name(system: System, clients: int) -> str:
    return f"{system.model}: {asked_by(system, clients)}"


def shown(found: Found) -> list[str]:
    times = [f"{1000 * found.latency(share):.0f} ms" for share in (0.5, 0.99)]
    return [f"{found.throughput:.1f}", *times, f"{found.answered:,}", f"{found.lost:,}", f"{found.wrong:,}"]


def share_of_core(found: Found) -> str:
    return f"{found.cpu:.0%}"


def row_of(cells: Cells, case: str) -> Row:
    empty: Row = {"case": case, "unit": "requests/s", "systems": {}, "ratios": {}, "bars": {}}
    return next((row for row in cells.rows if row["case"] == case), empty)


def with_speed(row: Row, name: str, found: Found) -> Row:
    """Return a row with one more speed, that of the whole window, and with the ratios that can be taken now."""
    lower, upper = found.quartiles
    speed: Any = {"median": found.throughput, "lower_quartile": lower, "upper_quartile": upper}
    systems = row["systems"] | {name: speed}
    ours = f"regard, {MANY} clients"
    others = [other for other in systems if other != ours] if ours in systems else []
    ratios = {f"{ours} / {other}": systems[ours]["median"] / systems[other]["median"] for other in others}
    bars = {name: bar for name, bar in BARS[row["case"]].items() if name in ratios}
    return {"case": row["case"], "unit": row["unit"], "systems": systems, "ratios": ratios, "bars": bars}


def times(name: str, found: Found) -> Row:
    """Return the times of one cell, and how even they are."""
    systems: dict[str, Any] = {
        label: dict.fromkeys(("median", "lower_quartile", "upper_quartile"), 1000 * found.latency(share))
        for label, share in (("p50", 0.5), ("p99", 0.99))
    }
    ratio = found.latency(0.5) / found.latency(0.99)
    return {
        "case": f"times, {name}",
        "unit": "ms",
        "systems": systems,
        "ratios": {"p50 / p99": ratio},
        "bars": {"p50 / p99": EVEN},
    }


def typed(arguments: Sequence[str] | None) -> argparse.Namespace:
    found = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    found.add_argument("--run", type=Path, help="a trained translator")
    names = ", ".join(f"'{name}'" for name in SYSTEMS)
    found.add_argument("--cells", nargs="+", choices=[*SYSTEMS], default=[*SYSTEMS], metavar="CELL", help=names)
    found.add_argument("--clients", nargs="+", type=int, help="in place of those of each cell")
    found.add_argument("--seconds", type=float, default=60.0)
    found.add_argument("--requests", type=int, default=0, help="so many instead of a time; records memory")
    found.add_argument("--tiny", action="store_true", help="a small GPT-2, to try whether everything runs; nothing is recorded")
    found.add_argument("--missing", action="store_true", help="only what is not recorded on this device")
    found.add_argument("--out", type=Path, help="a file for a copy of what is recorded")
    return found.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> Cells:
    options = typed(arguments)
    setting = (
        f"Closed loop over HTTP on {os.cpu_count()} cores, {options.seconds:.0f} s a cell after a tenth of that to warm up. "
        "The middle of a speed is that of the whole time, its spread that of the four quarters. "
        f"{TEXTS} sentences and {PROMPTS} prompts of mixed lengths; their texts are equal for all servers when asked for alone. "
        "The clients are one process on the same cores; the table has its share. Load of the machine when it began, its other "
        f"users counted, {os.getloadavg()[0]:.1f}."
    )
    found = versions("fastapi", "uvicorn", "ctranslate2", "transformers")
    cells = Cells("serving_load", "Servers under load", setting, found, options)
    with tempfile.TemporaryDirectory() as place:
        shape = Shape(vocabulary=200, width=32, layers=2, heads=2) if options.tiny else Shape()
        race = Race(Models(Path(place), options.run, shape), options, cells)
        cells.each({name: partial(race.measure, system) for name, system in SYSTEMS.items()})
    return cells


if __name__ == "__main__":
    main()

"""Runs that somebody changed, through the commands that open runs and through the questions that studio's page asks first."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from starlette.testclient import TestClient

from regard.studio.app import create
from regard.studio.launch import listed
from tests.command import Result, trained
from tests.faults.hostile_bases import (
    CPU,
    NO_FILES,
    Cases,
    Make,
    Spoil,
    gpt_run,
    label_run,
    replace,
    write,
)
from tests.faults.mutations import ESCAPE, mutated_bytes, mutated_json
from tests.faults.sandbox import Command

RUNS: dict[str, Callable[[], Path]] = {"translate": trained, "label": label_run, "gpt": gpt_run}
SETTINGS = ("recipe.toml", "data.json", "metrics.jsonl", "tokenizer.json", "labels.json")


def run_case(base: Callable[[], Path], spoil: Spoil, *commands: str, unsealed: bool = True) -> Make:
    """A copy of a run that somebody changed; `unsealed` without the hashes that would tell."""

    def make(place: Path) -> Sequence[Command]:
        run = Path(shutil.copytree(base(), place / "run"))
        if unsealed and (run / "data.json").exists():
            write("data.json", lambda content: json.dumps(json.loads(content) | {"seals": {}}))(run)
        spoil(run)
        every: dict[str, Command] = {
            "predict": ["predict", run, "the cat sees", "decode.maximum_length=3", *CPU],
            "lens": ["lens", run, "the cat", *CPU],
            "train": ["train", run / "recipe.toml", "--out", run, *CPU, "train.steps=21"],
            "explain": ["explain", run],
            "studio": lambda: asked(run),
        }
        return [every[name] for name in commands or ("predict", "train", "explain")]

    return make


def asked(run: Path) -> Result:
    """What studio's page asks for first, as the end of a command: 500 is a fault."""
    try:
        openings = listed([str(run)], "cpu")
    except Exception as error:
        return Result(2, "", f"regard: {error}\n") if type(error).__name__ == "UserError" else Result(1, "", repr(error))
    name = next(iter(openings))
    with TestClient(create(openings), base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        answers = [
            client.get("/api/runs"),
            client.get("/api/run", params={"run": name}),
            client.get("/api/metrics", params={"run": name}),
            client.post("/api/pass", json={"run": name, "text": "the cat"}),
        ]
    worst = max(answers, key=lambda answer: answer.status_code)
    return Result(0 if worst.status_code < 500 else 1, "", "" if worst.status_code < 500 else worst.text[:600])


def _toml(key: str, value: str) -> Callable[[bytes], str]:
    """The recipe with one of its lines changed."""

    def changed(content: bytes) -> str:
        lines = content.decode().splitlines()
        return "\n".join(f"{key} = {value}" if line.split(" = ")[0] == key else line for line in lines) + "\n"

    return changed


def runs_cases(draw: Random) -> Cases:
    for name in (*SETTINGS, "checkpoints", ".lock", "samples.txt"):
        for what in draw.sample(list(NO_FILES), 4):
            base = label_run if name == "labels.json" else trained

            def elsewhere(run: Path, name: str = name, what: str = what) -> None:
                shutil.rmtree(run / name) if (run / name).is_dir() else None
                replace(name, NO_FILES[what])(run)

            yield f"{name} is {what}", run_case(base, elsewhere, "predict", "train")
    for key, value in (
        ("width", "1000000000"),
        ("layers", "1000000000"),
        ("layers", "-1"),
        ("width", "nan"),
        ("heads", "0"),
        ("size", "10000000000"),
        ("dropout", "1e999"),
        ("tokenizer", '"\\u001b[2J"'),
        ("name", '"\\u001b[2J"'),
        ("name", '"../../x"'),
        ("train", '["/dev/zero"]'),
        ("family", "5"),
        ("feedforward", "100000000000"),
        ("maximum_length", "9" * 5000),
        ("beam", "1000000000"),
    ):
        yield f"{key}={value[:12]}", run_case(trained, write("recipe.toml", _toml(key, value)), "predict", "explain")
    for text in (
        "[" * 50_000,
        "a=" + "[" * 50_000,
        "",
        "\0",
        "[model]\nwidth=1\nwidth=2\n",
        "x" * 20_000_000,
        ESCAPE,
        "a = 1979-05-27T07:32:00Z\n",
    ):
        yield f"recipe.toml is {text[:9]!r}", run_case(trained, write("recipe.toml", text), "predict", "explain")
    for labels in (
        {"labels": [ESCAPE, "b"], "texts": 1},
        {"labels": ["a\tb", "c"], "texts": 1},
        {"labels": [1, 2]},
        {"labels": "ab"},
        [],
        {"labels": ["a"] * 100_000, "texts": 1},
        {"labels": ["a", "b"], "texts": 10**9},
    ):
        yield (
            f"labels.json {str(labels)[:20]!r}",
            run_case(label_run, write("labels.json", json.dumps(labels)), "predict", "train"),
        )
    while True:
        kind = draw.choice(list(RUNS))
        run = RUNS[kind]()
        path = draw.choice(
            [
                path
                for path in sorted(run.rglob("*"))
                if path.is_file() and path.suffix in (".json", ".toml", ".jsonl", ".safetensors")
            ]
        )
        name, unsealed = str(path.relative_to(run)), draw.random() < 0.7
        content: bytes | str = mutated_bytes(draw, path.read_bytes())
        if path.suffix == ".json" and draw.random() < 0.6:
            content = mutated_json(draw, json.loads(path.read_bytes()))
        yield (
            f"seeded {kind} {name}",
            run_case(
                RUNS[kind],
                write(name, content),
                *draw.choice([("predict", "train"), ("predict", "lens"), ("explain", "predict")]),
                unsealed=unsealed,
            ),
        )


def studio_cases(draw: Random) -> Cases:
    records = (
        '{"step": 1, "loss": 1' + "0" * 400 + "}",
        '{"step": 1, "loss": NaN}',
        '{"step": "a", "loss": []}',
        "[]",
        "5",
        '{"loss": 1}',
        '{"step": 1e308, "loss": 1e308}',
        '{"step": -1}',
        '{"step": 1, "' + "x" * 9999 + '": 1}',
        "\0",
        '{"step": 1, "loss": {}}',
        "{" * 9999,
        '{"step": 10000000000000000000000, "loss": 1}',
        '{"step": true, "loss": true}',
    )
    for record in records:
        yield f"metrics {record[:20]}", run_case(gpt_run, write("metrics.jsonl", f"{record}\n" * 5), "studio")
    yield "metrics: a bomb of lines", run_case(gpt_run, write("metrics.jsonl", '{"step": 1, "loss": 1}\n' * 400_000), "studio")
    for name in ("metrics.jsonl", "recipe.toml", "tokenizer.json", "data.json"):
        for what in ("a pipe", "/dev/zero", "a huge hole"):
            yield f"{name} is {what}", run_case(gpt_run, replace(name, NO_FILES[what]), "studio")
    while True:
        name = draw.choice(["metrics.jsonl", "recipe.toml", "tokenizer.json", "data.json"])
        seed = draw.randrange(2**32)
        yield (
            f"seeded {name}",
            run_case(gpt_run, write(name, lambda content, seed=seed: mutated_bytes(Random(seed), content)), "studio"),
        )  # type: ignore[misc]

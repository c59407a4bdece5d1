"""The guide's commands, run: every curl against a server on a port of this machine; and its files, read as by their programs."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
from PIL import Image

from regard.cli import app
from regard.serve.engine import Engine
from regard.serve.limits import Limits
from tests.serve.served import app_of, events, listening, model_of
from tests.serve.tiny_models import opened
from tests.tasks.forecasting import tiny_series

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "serving.md").read_text("utf-8")
ADDRESS = "localhost:8418"
NAMES = (
    "gpt",
    "embedder",
    "translator",
    "summarizer",
    "classifier",
    "tagger",
    "answerer",
    "filler",
    "responder",
    "captioner",
    "images",
    "asker",
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """Every curl of the guide; one may go over several lines."""
    found = list[str]()
    for block in blocks("sh"):
        joined = block.replace("\\\n", " ")
        for line in joined.splitlines():
            if line.startswith("curl "):
                found.append(line)
            elif line.startswith("   ") and found:
                found[-1] += "\n" + line
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("guide")
    Image.new("RGB", (40, 30), "orange").save(folder / "photo.png")
    return folder


@pytest.fixture(scope="module")
def port(place: Path) -> Iterator[int]:
    rows = "".join(f"{n % 7 + n % 24}.5\n" for n in range(400))
    (place / "load.csv").write_text(f"load\n{rows}")
    from regard.tasks.registry import open_run

    forecaster = open_run(tiny_series.train(place / "load", "patchtst", f"data.train={place / 'load.csv'}"), "cpu")
    predictors = {name: opened(name) for name in NAMES} | {"load": forecaster}
    models = [model_of(name, predictor, Engine(predictor)) for name, predictor in predictors.items()]
    with listening(app_of(*models)) as found:
        yield found
    for model in models:
        model.engine.close(drain=True)


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on PATH")
@pytest.mark.parametrize("command", commands(), ids=lambda command: command.split(ADDRESS)[1].split()[0])
def test_every_curl_is_answered(command: str, port: int, place: Path) -> None:
    ran = subprocess.run(
        ["bash", "-c", command.replace(ADDRESS, f"127.0.0.1:{port}")], cwd=place, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    for content in events(ran.stdout) if '"stream": true' in command else [json.loads(ran.stdout)]:
        assert "error" not in content, content
    if "json_schema" in command:
        assert isinstance(json.loads(json.loads(ran.stdout)["choices"][0]["text"])["good"], bool)


def test_the_guide_has_a_curl_for_every_route() -> None:
    table = re.findall(r"^\| `(?:GET|POST) (/v1/[\w/]+)`", GUIDE, re.MULTILINE)
    asked = {command.split(ADDRESS)[1].split()[0] for command in commands()}
    assert set(table) - asked == {"/v1/judge"}
    assert len(commands()) > 17


def parsed(arguments: list[str]) -> dict[str, Any]:
    """The options of a `regard serve`, as the command line parses them."""
    verb = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    found: dict[str, Any] = verb.make_context("serve", arguments).params
    return found


def test_every_limit_is_in_the_table_with_its_default() -> None:
    rows = dict(re.findall(r"^\| (`[\w`, ]+) \| ([^|]+) \|", GUIDE.partition("## Limits")[2].partition("## ")[0], re.MULTILINE))
    named = {name: default for names, default in rows.items() for name in re.findall(r"`(\w+)`", names)}
    assert set(named) == {field.name for field in fields(Limits)}
    for name in ("rows", "queue", "batch", "samples", "texts", "characters", "connections"):
        assert int(named[name].strip().replace(",", "")) == getattr(Limits(), name)
    assert (Limits().body, Limits().timeout, Limits().grace) == (4 * 2**20, 300, 60)
    assert (Limits().idle, Limits().upload, Limits().unread) == (10, 60, 30)


def test_the_unit_starts_and_reloads_this_server() -> None:
    (text,) = blocks("ini")
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    program, verb, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert (Path(program).is_absolute(), verb) == (True, "serve")
    options = parsed(arguments)
    assert options["runs"] == ["/srv/runs/gpt"]
    assert str(options["key_file"]) == "/etc/regard/keys.txt"
    assert "-HUP $MAINPID" in unit["Service"]["ExecReload"]
    assert int(unit["Service"]["TimeoutStopSec"]) > Limits().grace


INSTRUCTIONS = {"FROM", "RUN", "USER", "WORKDIR", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


def test_the_container_file_is_well_formed_and_runs_nothing_as_root() -> None:
    (text,) = blocks("dockerfile")
    lines = [line.split(maxsplit=1) for line in text.replace("\\\n", " ").splitlines()]
    names = [name for name, _ in lines]
    assert names[0] == "FROM"
    assert ":" in lines[0][1]
    assert set(names) <= INSTRUCTIONS
    assert all(names.count(name) == 1 for name in INSTRUCTIONS - {"RUN"})
    assert names.index("RUN") < names.index("USER") < names.index("CMD")
    last = dict(lines)
    assert json.loads(last["ENTRYPOINT"]) == ["regard", "serve"]
    options = parsed(json.loads(last["CMD"]))
    assert (options["port"], last["STOPSIGNAL"]) == (int(last["EXPOSE"]), "SIGTERM")
    assert options["key_file"] is not None
    probe = json.loads(last["HEALTHCHECK"].removeprefix("CMD "))
    compile(probe[2], "HEALTHCHECK", "exec")
    for found in re.findall(r"regard\[([\w,]+)\]", GUIDE):
        assert set(found.split(",")) <= {"serve", "structured", "ray"}


def test_the_proxy_passes_streams_on_and_takes_bodies_as_large_as_the_server() -> None:
    (text,) = blocks("nginx")
    assert text.count("{") == text.count("}")
    for line in text.splitlines():
        assert not line.strip() or line.strip().endswith((";", "{", "}")), line
    assert "proxy_buffering off;" in text
    assert f"client_max_body_size {Limits().body // 2**20}m;" in text
    assert f"proxy_read_timeout {Limits().timeout:.0f}s;" in text

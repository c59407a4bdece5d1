"""`regard predict` in several real processes: the file that one process writes, or one sentence and no file."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.commands import predict_shard
from tests.command import SENTENCES, Result, refused, regard, trained
from tests.tasks.tiny_labels import ROWS
from tests.tasks.tiny_labels import trained as trained_labeller
from tests.tasks.tiny_text import stories, write_stories
from tests.tasks.tiny_text import train as train_writer
from tests.training.processes import Processes, command

LINES = 300  # five chunks, which two and three processes share unevenly


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model that samples."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("writer")
    train_writer(folder / "run", write_stories(folder / "stories.jsonl", stories(30)))
    return folder / "run"


def texts(path: Path, count: int = LINES) -> Path:
    """Lines of one to six words, some of them empty, so that the place of each in its batch matters."""
    draw = random.Random(3)
    words = [*SENTENCES[0][0].split(), "dog", "élan"]
    path.write_text("".join(" ".join(draw.choices(words, k=draw.randint(0, 6))) + "\n" for _ in range(count)), "utf-8")
    return path


def by_one(path: Path, *typed: object) -> bytes:
    ended = regard("predict", *typed, "--device", "cpu", "--output", path)
    assert ended.code == 0, ended.err
    return path.read_bytes()


def start(size: int, folder: Path, *typed: object, full_disk_of_rank: int | None = None) -> Processes:
    return Processes(size, folder, command, ["predict", *map(str, typed), "--device", "cpu"], full_disk_of_rank)


def by_several(size: int, path: Path, *typed: object) -> bytes:
    processes = start(size, path.with_suffix(".logs"), *typed, "--output", path)
    assert processes.codes() == [0] * size, processes.told
    assert not path.with_name(f"{path.name}.part").exists()
    return path.read_bytes()


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("more", [[], ["--json", "decode.n_best=2"]], ids=str)
def test_translations_are_those_of_one_process(size: int, more: list[str], tmp_path: Path) -> None:
    typed = [trained(), "--input", texts(tmp_path / "texts"), *more]
    expected = by_one(tmp_path / "one", *typed)
    assert by_several(size, tmp_path / "several", *typed) == expected
    assert expected.count(b"\n") == LINES


def test_what_is_drawn_for_a_line_depends_on_its_number_in_the_file(writer: Path, tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("the cat\n" * LINES)
    typed = [writer, "--input", tmp_path / "texts", "decode.seed=5"]
    expected = by_one(tmp_path / "one", *typed)
    assert by_several(2, tmp_path / "several", *typed) == expected
    assert len(set(expected.splitlines())) > 20


def test_what_waits_may_be_more_than_memory_is_given_to(tmp_path: Path) -> None:
    """Sent in small pieces, which do not end where characters of several bytes do."""
    typed = [trained(), "--input", texts(tmp_path / "texts"), "--json"]
    processes = Processes(2, tmp_path / "logs", in_small_pieces, ["predict", *map(str, typed), "--output", str(tmp_path / "out")])
    assert processes.codes() == [0, 0], processes.told
    assert (tmp_path / "out").read_bytes() == by_one(tmp_path / "one", *typed)


def in_small_pieces(arguments: list[str]) -> None:
    predict_shard.PIECE, predict_shard.IN_MEMORY = 501, 2000
    command(arguments)


@pytest.mark.parametrize("kind", [".csv", ".jsonl"])
def test_tables_are_those_of_one_process(kind: str, tmp_path: Path) -> None:
    """With one header, and one remark about the rows without a text and the column that was guessed."""
    rows = [(str(n), ROWS[n % len(ROWS)][0] if n % 50 else "") for n in range(LINES)]
    table = tmp_path / f"table{kind}"
    if kind == ".csv":
        table.write_text("id,Review Text\n" + "".join(f'{n},"{text}"\n' for n, text in rows))
    else:
        table.write_text("".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in rows))
    run = trained_labeller()
    expected = by_one(tmp_path / f"one{kind}", run, "--input", table)
    processes = start(2, tmp_path / "logs", run, "--input", table, "--output", tmp_path / f"several{kind}")
    assert processes.codes() == [0, 0], processes.told
    assert (tmp_path / f"several{kind}").read_bytes() == expected
    assert len(expected.splitlines()) == LINES + (kind == ".csv")
    assert "".join(processes.told).count("6 of 300 rows have no text") == 1
    assert "".join(processes.told).count("by its header") == (kind == ".csv")


def test_lines_between_tabs_are_those_of_one_process(tmp_path: Path) -> None:
    """Of a table whose rows the model reads as lines."""
    typed = [trained(), "--input", texts(tmp_path / "texts.tsv")]
    assert by_several(2, tmp_path / "several", *typed) == by_one(tmp_path / "one", *typed)


@pytest.mark.parametrize("count", [0, 1])
def test_processes_may_have_nothing_to_do(count: int, tmp_path: Path) -> None:
    typed = [trained(), "--input", texts(tmp_path / "texts", count)]
    assert by_several(2, tmp_path / "several", *typed) == by_one(tmp_path / "one", *typed)


def one_message(processes: Processes, *told: str) -> None:
    assert processes.codes() == [2] * len(processes.running), processes.told
    refused(Result(2, "", "".join(processes.told)), *told)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["RUN", "a text", "--output", "OUT"], "give --input FILE and --output FILE"),
        (["RUN", "--output", "OUT"], "give --input FILE and --output FILE"),
        (["RUN", "--input", "TEXTS"], "give --input FILE and --output FILE"),
        (["RUN", "--input", "TEXTS", "--output", "nowhere/OUT"], "there is no folder"),
        (["RUN", "--input", "missing", "--output", "OUT"], "does not exist"),
        (["RUN", "--input", "/dev/null", "--output", "OUT"], "can be read only once"),
        (["nowhere", "--input", "TEXTS", "--output", "OUT"], "nowhere does not exist"),
        (["RUN", "--input", "TEXTS", "--output", "OUT", "decode.baem=3"], "did you mean 'decode.beam'?"),
        (["RUN", "--input", "LATIN", "--output", "OUT"], "line 299: byte 1 (0xE9) is not UTF-8"),
    ],
)
def test_a_mistake_is_told_once_and_nothing_is_written(typed: list[str], told: str, tmp_path: Path) -> None:
    texts(tmp_path / "texts")
    (tmp_path / "latin").write_bytes(b"the cat\n" * 298 + b"\xe9\n")
    places = {
        "RUN": str(trained()),
        "TEXTS": str(tmp_path / "texts"),
        "LATIN": str(tmp_path / "latin"),
        "OUT": str(tmp_path / "out"),
    }
    one_message(start(2, tmp_path / "logs", *(places.get(word, word) for word in typed)), told)
    assert not list(tmp_path.glob("out*"))


def different_inputs(folder: Path) -> None:
    os.chdir(folder / os.environ["RANK"])
    command(["predict", str(trained_path(folder)), "--input", "texts", "--output", "out", "--device", "cpu"])


def trained_path(folder: Path) -> Path:
    return Path((folder / "run").read_text())


def test_machines_with_different_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text(str(trained()))
    for rank in range(2):
        (tmp_path / str(rank)).mkdir()
        texts(tmp_path / str(rank) / "texts", 3 + rank)
    one_message(Processes(2, tmp_path / "logs", different_inputs, tmp_path), "not the same file for all 2 processes")
    assert not list(tmp_path.rglob("out*"))


def killed_at_its_first_answer(arguments: list[str]) -> None:
    from regard.tasks.translation.predict import Translator

    if os.environ["RANK"] == "1":
        Translator.predict = lambda *given: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    command(arguments)


def test_a_process_that_is_killed_ends_the_first_and_the_old_file_stays(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("of yesterday")
    typed = ["predict", str(trained()), "--input", str(texts(tmp_path / "texts")), "--output", str(tmp_path / "out")]
    processes = Processes(2, tmp_path / "logs", killed_at_its_first_answer, [*typed, "--device", "cpu"])
    assert processes.codes() == [2, -signal.SIGKILL], processes.told
    assert "regard: another process is gone" in processes.told[0]
    assert "run the same command again" in processes.told[0]
    assert (tmp_path / "out").read_text() == "of yesterday"
    assert {path.name for path in tmp_path.iterdir()} == {"out", "out.part", "texts", "logs"}  # as one process leaves what it has


@pytest.mark.parametrize("place", [None, 3])
def test_torchrun(place: int | None, writer: Path, tmp_path: Path) -> None:
    """Also where a line in the share of the first process is too long for the model."""
    lines = ["the cat"] * LINES
    (tmp_path / "texts").write_text("\n".join(lines))
    typed = [writer, "--input", tmp_path / "texts"]
    expected = by_one(tmp_path / "one", *typed)
    if place is not None:
        lines[place] = "the cat " * 20
        (tmp_path / "texts").write_text("\n".join(lines))
    started = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "regard", "predict"]
    started += [*map(str, typed), "--device", "cpu", "--output", str(tmp_path / "several")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    ended = subprocess.run(started, capture_output=True, text=True, timeout=600, env=environment)
    if place is not None:
        assert ended.returncode != 0
        assert ended.stderr.count("regard: ") == ended.stderr.count("this model sees 16") == 1, ended.stderr
        assert not (tmp_path / "several").exists()
        return
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "several").read_bytes() == expected

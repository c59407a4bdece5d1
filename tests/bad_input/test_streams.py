"""Standard streams that are closed, or that nobody reads any more, and results that are cut short."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regard import __version__
from regard.cli import main
from regard.commands import predict
from regard.commands.predict import CHUNK
from regard.core import atomic
from regard.decode.config import STRONGEST, WIDEST
from regard.tasks import notices
from regard.tasks.translation.predict import Translator
from regard.training import logging
from tests.command import refused, regard, tiny, trained, write_tiny
from tests.tasks.tiny_text import trained as trained_writer


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """A line for bash, where `regard` is this one."""
    call = f'set -o pipefail; regard() {{ {shlex.quote(sys.executable)} -m regard "$@"; }}; {line}'
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(["bash", "-c", call], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("regard recipes | head -1", 0, ""),
        ("regard train --help | head -1", 0, ""),
        ("regard recipes >&-", 2, "standard output is closed"),
        ("regard recipes <&- | cat", 0, ""),
        ("regard predict RUN <&-", 2, "standard input is closed"),
        ("regard chat RUN <&-", 2, "standard input is closed"),
        ("regard train translat 2>&-", 2, ""),
        ("regard --version 2>&- <&-", 0, ""),
    ],
)
def test_a_stream_that_is_closed_or_not_read(line: str, code: int, said: str) -> None:
    ran = shell(line.replace("RUN", shlex.quote(str(trained()))))
    assert ran.returncode == code, ran
    assert said in ran.stderr
    assert ran.stderr.count("\n") == bool(said)


def test_a_training_that_nobody_listens_to(tmp_path: Path) -> None:
    ran = shell(f"regard train {shlex.quote(str(write_tiny(tmp_path)))} train.steps=3 train.warmup=1 --out {tmp_path}/run 2>&-")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert str(tmp_path / "run") in ran.stdout


def test_results_that_are_no_longer_read_are_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own the exit code is tried above; here, that a verb's own output ends so too."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", buffering=1) as nobody:
        monkeypatch.setattr(sys, "stdout", nobody)
        with pytest.raises(SystemExit) as stop:
            main(["predict", str(trained()), "the cat sees the dog ."])
    assert stop.value.code == 0


def test_a_conversation_that_is_not_utf8() -> None:
    message = refused(regard("chat", trained_writer(), stdin=b"caf\xe9\n"), "standard input", "0xE9", "iconv")
    assert "UnicodeDecodeError" not in message


# ------------------------------------------------------------------------------------------------------------ too long, too large


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("decode.beam=1000000", f"to {WIDEST:,}"),
        ("decode.length_penalty=1e308", f"to {STRONGEST:g}"),
        ("decode.length_penalty=nan", "decode.length_penalty is nan"),
    ],
)
def test_a_search_beyond_all_bounds(setting: str, said: str) -> None:
    refused(regard("predict", trained(), "the cat", setting), said)


def test_a_search_at_its_bounds_works() -> None:
    settings = (f"decode.beam={WIDEST}", f"decode.length_penalty={STRONGEST}", "decode.maximum_length=3")
    assert regard("predict", trained(), "the cat", *settings).code == 0


def test_one_text_has_a_bound_and_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices.check_length, "__defaults__", (50,))
    monkeypatch.setattr(predict, "LONGEST", 50)
    run, long = trained(), "cat " * 13
    refused(regard("predict", run, "the cat", long), "text 2 has 52 characters", "may have 50")
    refused(regard("predict", run, stdin=f"the cat\n{long}\n".encode()), "standard input, line 2 has 52 characters")
    (tmp_path / "long.txt").write_text(f"the cat\n\n{long}\n")
    refused(regard("predict", run, "--input", tmp_path / "long.txt"), "long.txt, line 3 has 52 characters")
    endless = b"the cat\n" + b"x" * (predict.BLOCK + 201)
    refused(regard("predict", run, stdin=endless), "standard input, line 2 has more than the 50 characters")
    assert regard("predict", run, "x" * 50).code == 0


def test_a_turn_and_a_text_to_look_into_have_a_bound() -> None:
    long = "cat " * (notices.LONGEST_TURN // 4 + 1)
    refused(regard("lens", trained(), long), "the text has 20,004 characters")
    refused(regard("lens", trained(), long, "--show", "heads"), "the text has 20,004 characters")
    said = regard("chat", trained_writer(), stdin=f"{long}\nthe cat\n".encode())
    assert said.code == 0
    assert "that has 20,003 characters" in said.err


def test_a_translator_whose_positions_do_not_end_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.tasks.translation.predict.LONGEST_SOURCE", 10)
    refused(regard("predict", trained(), "cat " * 20), "is 21 tokens long", "may have 10", "split it")


@pytest.mark.parametrize(
    "arguments",
    [
        ["score", "RUN", ""],
        ["predict", "RUN", "--input", ""],
        ["predict", "RUN", "the cat", "--output", ""],
        ["predict", "", "the cat"],
        ["train", ""],
        ["train", "translate", "--out", ""],
        ["import", "", "OUT"],
        ["import", "gpt2", ""],
        ["export", "RUN", ""],
        ["prune", "RUN", ""],
        ["prune", "RUN", "OUT", "--data="],
        ["evaluate", "RUN", "--output", ""],
        ["lens", "RUN", "the cat", "--out", ""],
        ["lens", "RUN", "--word", "cat", "--file", ""],
        ["explain", "translate", "--out", ""],
        ["explain", ""],
        ["demo", "--out", ""],
        ["studio", "RUN", "--host", ""],
    ],
)
def test_an_empty_name_is_not_this_folder(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"RUN": trained(), "OUT": tmp_path / "out"}
    refused(regard(*(names.get(word, word) for word in arguments)), "is an empty text", "--help")
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------------------- results cut short


def test_results_that_were_ready_are_kept_when_a_prediction_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the second chunk: what was there stays, the lines of the first are beside it, and both are told."""
    whole, asked = Translator.predict, [0]

    def stopped(self: Translator, *arguments: Any) -> None:
        asked[0] += 1
        if asked[0] == 2:
            raise KeyboardInterrupt
        whole(self, *arguments)

    monkeypatch.setattr(Translator, "predict", stopped)
    (tmp_path / "out.txt").write_text("from before\n")
    lines = "the cat sees the dog .\n" * (CHUNK + 1)
    result = regard("predict", trained(), "--output", tmp_path / "out.txt", stdin=lines.encode())
    assert result.code == 130
    assert f"{CHUNK} lines of results are in {tmp_path / 'out.txt.part'}." in result.err
    assert (tmp_path / "out.txt").read_text() == "from before\n"
    assert (tmp_path / "out.txt.part").read_text().count("\n") == CHUNK


def test_a_line_of_results_is_in_the_file_as_soon_as_it_is_ready(tmp_path: Path) -> None:
    with atomic.partial_file(tmp_path / "out.txt", "--output") as file:
        file.write("one\n")
        assert (tmp_path / "out.txt.part").read_text() == "one\n"
    assert (tmp_path / "out.txt").read_text() == "one\n"


def test_nothing_is_left_where_nothing_was_ready(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), atomic.partial_file(tmp_path / "out.txt", "--output"):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------------------------------------------------- a full disk


def test_a_full_disk_is_told_with_the_file_of_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.core.atomic.create_file", lambda path: Path("/dev/full").open("wb"))  # noqa: SIM115
    refused(regard("predict", trained(), "the cat", "--output", tmp_path / "out.txt"), "out.txt", "No space left on device")


def test_a_full_disk_is_told_with_the_file_of_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> Any:
        return Path("/dev/full").open("wb")

    monkeypatch.setattr(logging, "open_append", full)
    result = regard("train", tiny(), "--out", tmp_path / "run", "train.steps=2", "train.warmup=1")
    refused(result, str(tmp_path / "run" / "metrics.jsonl"), "No space left on device")


def test_the_version() -> None:
    assert regard("--version").out == f"regard {__version__}\n"

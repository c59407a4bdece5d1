"""A run's log survives a kill: half a line is left out, what will be computed again is dropped, and pictures follow."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from regard.core.errors import UserError
from regard.training.logging import RunLog, clock, read_metrics


def lines(folder: Path) -> list[str]:
    return (folder / "metrics.jsonl").read_text().splitlines()


def written(folder: Path, steps: int) -> RunLog:
    log = RunLog(folder, steps=steps, start=0)
    for step in range(1, steps + 1):
        log.record(step=step, loss=1 / step, learning_rate=step / 100)
        if step % 2 == 0:
            log.record(step=step, valid_nll=2 / step, samples=[f"à l'étape {step}", "你好"])
    return log


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


# ------------------------------------------------------------------------------------------------------------ metrics.jsonl


def test_every_record_is_one_line_of_json_at_once(tmp_path: Path) -> None:
    log = RunLog(tmp_path, steps=9, start=0)
    assert lines(tmp_path) == []
    log.record(step=1, loss=0.5)
    log.record(step=2, samples=["two\nlines", "\u2028"])
    assert [json.loads(line) for line in lines(tmp_path)] == [
        {"step": 1, "loss": 0.5},
        {"step": 2, "samples": ["two\nlines", "\u2028"]},
    ]
    assert read_metrics(tmp_path / "metrics.jsonl").records == log.records


@given(st.integers(0, 400))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_log_cut_anywhere_keeps_its_whole_lines(tmp_path: Path, size: int) -> None:
    whole = written(tmp_path, 6).records
    path = tmp_path / "metrics.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[:size])
    complete = content[:size].count(b"\n")
    assert read_metrics(path).records[:complete] == whole[:complete]
    assert len(read_metrics(path).records) <= complete + 1  # the last may lack nothing but its line's end
    log = RunLog(tmp_path, steps=6, start=6)
    log.record(step=6, loss=0.0)
    assert read_metrics(path).records == log.records == [*whole[: len(log.records) - 1], {"step": 6, "loss": 0.0}]


def test_bytes_that_are_no_text_are_left_out_too(tmp_path: Path) -> None:
    """A power cut may leave a block of anything at the end of a file."""
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1, "loss": 1.0}\n{"step": 2, "lo\xff\xfe\x00\x00')
    assert read_metrics(path) == ([{"step": 1, "loss": 1.0}], 0)


def test_what_is_beyond_the_checkpoint_is_dropped(tmp_path: Path) -> None:
    written(tmp_path, 6)
    log = RunLog(tmp_path, steps=6, start=3)
    assert [record["step"] for record in log.records] == [1, 2, 2, 3]
    assert [json.loads(line)["step"] for line in lines(tmp_path)] == [1, 2, 2, 3]
    log.record(step=4, loss=9.0)
    assert [json.loads(line)["step"] for line in lines(tmp_path)] == [1, 2, 2, 3, 4]


def test_a_fresh_start_forgets_an_old_log(tmp_path: Path) -> None:
    written(tmp_path, 3)
    assert RunLog(tmp_path, steps=3, start=0).records == []
    assert lines(tmp_path) == []


def test_no_log_yet_is_an_empty_one(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "metrics.jsonl") == ([], 0)


def test_a_pipe_a_device_or_a_file_without_end_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.jsonl"
    os.mkfifo(path)
    for read in (lambda: read_metrics(path), lambda: RunLog(tmp_path, steps=3, start=0)):
        with pytest.raises(UserError, match="is a pipe"):
            read()
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(UserError, match="leads out of"):
        read_metrics(path)
    path.unlink()
    path.write_bytes(b'{"step": 1}\n' * 3)
    monkeypatch.setattr("regard.training.logging.LARGEST", 20)
    with pytest.raises(UserError, match="more than 20 bytes"):
        read_metrics(path)


@pytest.mark.parametrize("step", ["true", "-1", "1" + "0" * 400, "1" + "0" * 5000, "1.5", '"1"', "null"])
def test_a_step_that_is_none_is_a_damaged_line(tmp_path: Path, step: str) -> None:
    (tmp_path / "metrics.jsonl").write_text(f'{{"step": {step}, "loss": 1}}\n{{"step": 2}}\n')
    assert read_metrics(tmp_path / "metrics.jsonl") == ([{"step": 2}], 1)


def test_what_is_no_number_is_not_drawn(tmp_path: Path) -> None:
    odd = ("1" + "0" * 400, '"x"', "NaN", "Infinity", "[1]", "null", "1")
    lines = (f'{{"step": {n}, "loss": {value}, "samples": {value}}}\n' for n, value in enumerate(odd))
    (tmp_path / "metrics.jsonl").write_text("".join(lines))
    RunLog(tmp_path, steps=9, start=9).render()
    assert (tmp_path / "curves.png").exists()


# ----------------------------------------------------------------------------------------------------------------- pictures


def test_curves_are_a_picture_with_every_line_in_it(tmp_path: Path) -> None:
    written(tmp_path, 6).render()
    path = tmp_path / "curves.png"
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    picture = imread(path)
    assert picture.shape[0] > 300
    assert picture.shape[1] > 600
    colours = {tuple(round(255 * part) for part in pixel[:3]) for row in picture[::2] for pixel in row}
    assert {(0x9A, 0xA7, 0xB8), (0xC2, 0x41, 0x0C), (0x0F, 0x76, 0x6E)} <= colours
    assert sorted(file.name for file in tmp_path.iterdir()) == ["curves.png", "metrics.jsonl", "samples.txt"]


@pytest.mark.parametrize("records", [[], [{"step": 1, "loss": float("nan")}], [{"step": 1, "valid_nll": 3.0, "samples": []}]])
def test_little_to_draw_is_still_a_picture(tmp_path: Path, records: list[dict[str, object]]) -> None:
    log = RunLog(tmp_path, steps=1, start=0)
    for record in records:
        log.record(**record)
    log.render()
    assert imread(tmp_path / "curves.png").ndim == 3


def test_samples_are_told_with_their_step(tmp_path: Path) -> None:
    written(tmp_path, 5).render()
    text = (tmp_path / "samples.txt").read_text("utf-8")
    assert text == "step 2\nà l'étape 2\n你好\n\nstep 4\nà l'étape 4\n你好\n"


# ------------------------------------------------------------------------------------------------------------- for people


def test_without_a_terminal_every_line_is_plain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = RunLog(tmp_path, steps=200, start=0, unit="texts")
    log.progress(50, loss=3.14159, rate=7e-4, speed=12345.6)
    log.say("done")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "\r" not in shown.err
    assert "\x1b" not in shown.err
    first, second = shown.err.splitlines()
    for part in ("50/200", "25%", "loss  3.142", "lr 7.0e-04", "12,346 texts/s", "0:00 left"):
        assert part in first
    assert second == "done"


def test_on_a_terminal_progress_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    log = RunLog(tmp_path, steps=2, start=0)
    log.progress(1, 1.0, 0.1, 10)
    log.progress(2, 1.0, 0.1, 10)
    log.say("done")
    assert screen.getvalue().count("\n") == 1
    assert screen.getvalue().count("\r\x1b[2K") == 3
    assert screen.getvalue().endswith("done\n")


def test_time_left_counts_from_where_this_process_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    log = RunLog(tmp_path, steps=1000, start=900)
    now[0] += 10
    log.progress(910, 1.0, 0.1, 10)  # ten steps in ten seconds, ninety to go
    assert "1:30 left" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0:00"), (59.4, "0:59"), (59.6, "1:00"), (3599.7, "1:00:00"), (3661, "1:01:01"), (90_000, "25:00:00")],
)
def test_clock(seconds: float, shown: str) -> None:
    assert clock(seconds) == shown

"""What waits for a GPU runs part by part, within its time, and goes on where an earlier session ended."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
import torch

from benchmarks import on_device
from benchmarks.on_device import Part, Session, main, parsed

PARTS = {
    "first": Part(60, ("-c", "print('first says something')")),
    "slow": Part(1, ("-c", "import time; time.sleep(600)")),
    "broken": Part(60, ("-c", "raise SystemExit(3)")),
    "read": Part(60, ("-c", "import sys; print(open(sys.argv[1] + '/given').read())", "{data}"), needs=("data",)),
}


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(on_device, "PARTS", PARTS)
    monkeypatch.setattr(on_device, "LEAST", 0)
    for name in ("RUNS", "RESULTS"):
        monkeypatch.setattr(on_device, name, tmp_path / name)
        (tmp_path / name).mkdir()


def said(folder: Path) -> str:
    return (folder / "session.log").read_text()


def test_parts_that_are_done_are_left_out_of_the_next_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (tmp_path / name for name in "abc")
    main(["--out", str(first), "--parts", *PARTS])
    assert "first says something" in said(first)
    assert "slow cut off after 1 s" in said(first)
    assert "broken ended with 3" in said(first)
    assert "read: left out, without --data" in said(first)
    assert list(json.loads((first / "state.json").read_text())) == ["first"]
    (tmp_path / "given").write_text("what was given")
    main(["--out", str(second), "--after", str(first), "--parts", "first", "read", "--data", str(tmp_path)])
    assert "first: done before" in said(second)
    assert "what was given" in said(second)
    assert list(json.loads((second / "state.json").read_text())) == ["first", "read"]
    monkeypatch.setattr(on_device, "LEAST", 20)
    main(["--out", str(third), "--parts", "first", "--seconds", "5"])
    assert "first: no time is left" in said(third)


def test_what_was_found_is_packed_and_unpacked_by_the_next_session(tmp_path: Path) -> None:
    session = Session(parsed(["--out", str(tmp_path / "a")]))
    result = tmp_path / "RESULTS" / f"toy.{'cuda' if torch.cuda.is_available() else 'cpu'}.json"
    run = tmp_path / "RUNS" / "base-scratch-1-test.json"
    for path in (result, run):
        path.write_text("found")
    session.save()
    for name, path in (("results.tar.gz", result), ("runs.tar.gz", run)):
        with tarfile.open(tmp_path / "a" / name) as packed:
            assert packed.getnames() == [path.name]
        path.unlink()
    Session(parsed(["--out", str(tmp_path / "b"), "--after", str(tmp_path / "a")]))
    assert result.read_text() == run.read_text() == "found"

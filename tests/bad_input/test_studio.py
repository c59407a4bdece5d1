"""Studio started wrongly: one sentence, exit code 2, and no server."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.command import refused, regard

CASES = [
    (["studio", "nowhere", "--no-browser"], "nowhere does not exist"),
    (["studio", "--port", "99999", "--no-browser"], "--port 99999", "65535"),
    (["studio", "--port", "x"], "--port", "'regard studio --help'"),
    (["studio", "--key", "a long enough key", "--no-browser"], "--key-file FILE", "REGARD_STUDIO_KEY"),
    (["studio", "--key-file", "none.key", "--no-browser"], "none.key does not exist"),
    (["studio", "--key-file", "/dev/zero", "--no-browser"], "/dev/zero is a device"),
    (["studio", "--allow-host", "http://lab", "--no-browser"], "--allow-host 'http://lab'"),
    (["studio", "--device", "gpu", "--no-browser"], "--device gpu"),
    (["studio", "--prot", "1"], "--prot", "--port"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case[0]))
def test_a_wrong_start_is_one_sentence(case: tuple[list[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, *said = case
    assert refused(regard(*arguments), *said).count("\n") == 1


def test_a_short_key_is_refused_wherever_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("short\n")
    refused(regard("studio", "--key-file", tmp_path / "key", "--no-browser"), "at least 12")
    monkeypatch.setenv("REGARD_STUDIO_KEY", "short")
    refused(regard("studio", "--host", "0.0.0.0", "--no-browser"), "REGARD_STUDIO_KEY", "at least 12")


def test_without_runs_it_says_how_to_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused(regard("studio", "--no-browser"), "regard demo")


def test_a_file_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    refused(regard("studio", str(tmp_path / "a.txt"), "--no-browser"), "is a file")


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text("")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused(regard("studio", str(tmp_path), "--port", str(port), "--no-browser"), f"127.0.0.1:{port}", "another --port")

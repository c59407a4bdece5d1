"""A server started wrongly: one sentence, exit code 2, and no server."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from tests.command import copy_of_run, refused, regard, trained
from tests.tasks.tiny_text import trained as writing

CASES = [
    (["serve", "nowhere"], "nowhere does not exist"),
    (["serve"], "there is no run in runs/ yet", "'regard serve RUN'"),
    (["serve", "RUN", "--port", "99999"], "--port 99999", "65535"),
    (["serve", "RUN", "--host", "0.0.0.0"], "--host 0.0.0.0", "--key-file FILE"),
    (["serve", "RUN", "--host", "192.168.0.1"], "--key-file FILE"),
    (["serve", "RUN", "--key-file", "none.key"], "none.key does not exist"),
    (["serve", "RUN", "--key-file", "/dev/zero"], "/dev/zero is a device"),
    (["serve", "RUN", "--key-file", "short.key"], "at least 12"),
    (["serve", "RUN", "--key-file", "empty.key"], "has no key"),
    (["serve", "RUN", "--workers", "0"], "--workers 0", "1 to 64"),
    (["serve", "RUN", "--watch", "0.5"], "--watch 0.5", "1 to 86400"),
    (["serve", "RUN", "--limit", "row=5"], "limit.row is not a setting", "limit.rows"),
    (["serve", "RUN", "--limit", "rows"], "not a setting"),
    (["serve", "RUN", "--limit", "rows=many"], "limit.rows=many must be a whole number"),
    (["serve", "RUN", "--limit", "rows=0"], "limit.rows=0 must be at least 1"),
    (["serve", "RUN", "--limit", "timeout=0"], "limit.timeout=0"),
    (["serve", "RUN", "decode.beam=none"], "decode.beam"),
    (["serve", "RUN", "--device", "gpu"], "--device gpu"),
    (["serve", "RUN", "--dry-run", "--limit", "rows=-1"], "limit.rows=-1"),
    (["serve", "RUN", "--prot", "1"], "--prot", "--port"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case[0]))
def test_a_wrong_start_is_one_sentence(case: tuple[list[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short.key").write_text("short\n")
    (tmp_path / "empty.key").write_text("# no key\n")
    arguments, *said = case
    refused(regard(*[str(trained()) if word == "RUN" else word for word in arguments]), *said)


def test_a_port_in_use_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused(regard("serve", trained(), "--port", port), f"serve cannot listen on 127.0.0.1:{port}", "another --port")


def test_a_chat_template_that_is_none_is_refused_before_anything_is_served(tmp_path: Path) -> None:
    run = Path(shutil.copytree(writing(), tmp_path / "run"))
    (run / "chat_template.jinja").write_text("{% for %}")
    refused(regard("serve", run, "--port", "0", "--device", "cpu"), "chat_template.jinja", "cannot be read")


def test_the_plan_needs_no_port_and_counts_what_the_models_take(tmp_path: Path) -> None:
    result = regard("serve", copy_of_run(tmp_path), "--dry-run", "--device", "cpu", "--workers", "2", "--limit", "memory=200000")
    assert result.code == 0, result.err
    first, longest, usual, weights, texts = result.out.splitlines()
    assert first.startswith("run: 5,920 parameters, 23.12 KiB")
    assert "reads 10,000 and writes 10,000 tokens" in longest
    assert longest.endswith(": 0 are written together")
    assert "reads 256 and writes 256 tokens" in usual
    assert usual.endswith(": 1 are written together")
    assert "46.25 KiB in 2 processes" in weights
    assert "195.3 KiB" in texts

"""A metrics.jsonl that somebody else wrote: curves of what can be drawn, and a sentence for the rest; never a server error."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from regard.studio.app import create
from tests.studio.tiny_session import TinyOpening, TinySession

HUGE = "1" + "0" * 400
LINE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(int(HUGE)),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["step", "loss", "x"]), inner, max_size=3),
    max_leaves=5,
)


def asked(folder: Path) -> Any:
    client = TestClient(create({"tiny": TinyOpening(TinySession(), folder)}), base_url="http://127.0.0.1")
    answer = client.get("/api/metrics", params={"run": "tiny"})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("value", [HUGE, f"-{HUGE}", '"x"', "NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_no_finite_number_is_left_out_and_said(tmp_path: Path, value: str) -> None:
    odd = "".join(f'{{"step": {n}, "loss": {value}, "rate": 0.5}}\n' for n in range(1, 6))
    (tmp_path / "metrics.jsonl").write_text(f'{odd}{{"step": 6, "loss": 2}}\nno json\n')
    said = asked(tmp_path)
    assert said["curves"] == {"rate": [[n, 0.5] for n in range(1, 6)], "loss": [[6, 2.0]]}
    damaged, left_out = said["notes"]
    assert damaged == "1 damaged line is left out"
    assert left_out == "left out, for it is no finite number: loss of step 1, loss of step 2, loss of step 3 and 2 more"


def test_samples_are_no_curves_and_nothing_to_complain_of(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2, "samples": ["a"]}\n{"step": 2, "lo')
    assert asked(tmp_path) == {"curves": {"loss": [[1, 2.0]]}, "notes": []}
    assert asked(tmp_path / "none") == {"curves": {}, "notes": []}


def test_a_pipe_is_refused_and_holds_up_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "metrics.jsonl")
    for _ in range(5):  # more than there are threads
        assert "is a pipe" in asked(tmp_path)["cannot"]


@given(st.lists(LINE, max_size=4), st.binary(max_size=20))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_line_breaks_the_server(tmp_path: Path, lines: list[Any], end: bytes) -> None:
    (tmp_path / "metrics.jsonl").write_bytes("".join(json.dumps(line) + "\n" for line in lines).encode() + end)
    assert {"curves", "notes"} == asked(tmp_path).keys()

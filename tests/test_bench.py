"""What is measured is what was run, what is written is what was measured, and docs/performance.md says what is written."""

from __future__ import annotations

import json
import re
import statistics
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import attention, cost_growth, measure, plot, render
from regard.commands import bench
from tests.command import Result, refused, regard

DOCS = render.DOCS
STAMP = {"benchmark": "toy", "date": "2026-01-02", "device": "an abacus", "python": "3.11.0", "torch": "2.13.0"}
seconds = st.lists(st.floats(1e-6, 1e3), min_size=2, max_size=9)


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "REST", 0.0)


def race() -> dict:
    """A result in which nothing is left to chance: one peer takes twice as long as we, the other half as long."""
    taken = {"regard": [1.0, 2.0, 3.0], "slow": [2.0, 4.0, 6.0], "fast": [0.5, 1.0, 1.5]}
    bars: dict[str, measure.Bar] = {"regard / slow": {"floor": 2.0, "goal": 3.5}}
    rows = [measure.row("batch 1", "tokens/s", 60, taken, bars=bars, peaks={"slow": 2_500_000})]
    race = {"title": "A toy", "setting": "On the floor.", "versions": {"slow": "1.0"}, "rows": rows}
    return STAMP | race | {"tables": [], "curves": [], "file": "toy.cpu"}


def test_a_race_run_again_is_told_and_the_lower_ratio_decides() -> None:
    row = race()["rows"][0] | {"again": {"regard / slow": [1.9]}}
    told = " | ".join(render.cells([row])[1])
    assert "2.00×, in another race 1.90×" in told
    assert "floor 2 not met" in told


# ------------------------------------------------------------------------------------------------------------------ measuring


def test_contenders_take_turns_in_changing_order() -> None:
    ran: list[str] = []
    took = measure.alternate({name: partial(ran.append, name) for name in "abc"}, rounds=20, warm_up=4)
    assert {name: len(values) for name, values in took.items()} == dict.fromkeys("abc", 20)
    rounds = [tuple(ran[n : n + 3]) for n in range(0, len(ran), 3)]
    assert len(rounds) == 24
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds)
    assert len(set(rounds)) > 3


def test_the_clock_runs_while_a_contender_does(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def takes(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(measure.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(measure.time, "sleep", lambda seconds: takes(100.0))  # the rest between contenders is nobody's
    took = measure.alternate({"long": lambda: takes(2.0), "short": lambda: takes(0.5)}, rounds=3, warm_up=1)
    assert took == {"long": [2.0] * 3, "short": [0.5] * 3}


@given(seconds, seconds, st.floats(1, 1e6))
def test_a_row_is_what_numpy_makes_of_the_seconds(ours: list[float], theirs: list[float], work: float) -> None:
    rounds = min(len(ours), len(theirs))
    a, b = np.array(ours[:rounds]), np.array(theirs[:rounds])
    row = measure.row("a case", "tokens/s", work, {"ours": a.tolist(), "theirs": b.tolist()})
    assert row["systems"]["ours"]["median"] == pytest.approx(np.median(work / a))
    assert row["systems"]["theirs"]["median"] == pytest.approx(np.median(work / b))
    assert row["ratios"] == {"ours / theirs": pytest.approx(np.median(b / a))}
    spread = row["systems"]["ours"]
    assert spread["lower_quartile"] <= spread["median"] * (1 + 1e-9)
    assert spread["upper_quartile"] >= spread["median"] * (1 - 1e-9)


def test_pairs_may_be_named_and_bars_must_fit_them() -> None:
    taken = {"a": [1.0, 1.0], "b": [2.0, 2.0], "c": [4.0, 4.0]}
    assert measure.row("", "", 1, taken, pairs=[("b", "c")])["ratios"] == {"b / c": 2.0}
    assert measure.row("", "", 1, taken, pairs=())["ratios"] == {}
    with pytest.raises(ValueError, match="b / d"):
        measure.row("", "", 1, taken, bars={"b / d": {"floor": 1.0}})


def test_peak_memory_is_the_most_held_at_once() -> None:
    def run() -> None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        for _ in range(3):  # each time two at once, and none is left
            first = torch.empty(2**20, dtype=torch.uint8, device=device)
            del first
            both = [torch.empty(2**20, dtype=torch.uint8, device=device) for _ in range(2)]
            del both

    assert measure.peak_bytes(run) == 2 * 2**20
    assert measure.peak_bytes(lambda: None) == 0


@pytest.mark.parametrize("form", ["race", "own"])
def test_what_is_written_can_be_read(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "RESULTS", tmp_path / "results")
    rows = race()["rows"]
    if form == "race":
        path = measure.write("toy", title="A toy", setting="Here.", rows=rows, versions=measure.versions("numpy"))
    else:
        path = measure.write("toy", {"bleu": 12.5})
    (found,) = render.recorded(path.parent)
    assert path.stem == found["file"] == f"toy.{'cuda' if torch.cuda.is_available() else 'cpu'}"
    assert found["torch"] == torch.__version__
    if form == "race":
        assert found["rows"] == rows
        assert found["versions"] == {"numpy": np.__version__}
    else:
        assert found["bleu"] == 12.5
        assert "rows" not in found


# ------------------------------------------------------------------------------------------------------------------ rendering


@given(st.floats(1e-3, 1e12))
def test_a_number_for_people_is_the_number(value: float) -> None:
    told = render.number(value)
    read = float(told.replace(",", "").rstrip("M")) * 1e6 ** told.count("M")
    assert read == pytest.approx(value, rel=0.0051)
    assert len(told.rstrip("M")) <= 9
    assert "e" not in told or value < 1e-4


def test_cells() -> None:
    heading, line = render.cells(race()["rows"])
    assert heading == ["tokens/s", "regard", "slow", "fast", "bars"]
    assert line[0] == "batch 1"
    assert line[1].startswith("30 ±")
    assert line[2].startswith("15 ±")
    assert line[2].endswith("2.00×, 2.5 MB")
    assert line[3].endswith("%, 0.50×")
    assert line[4] == "regard / slow: floor 2 met, goal 3.5 not met"


def test_a_ratio_of_another_than_the_first_is_named() -> None:
    rows = [measure.row("", "", 1, {"a": [1.0] * 2, "b": [1.0] * 2, "c": [3.0] * 2}, pairs=[("b", "c")])]
    assert render.cells(rows)[1][3].endswith(", b 3.00×")


def test_a_headline_spans_the_cases() -> None:
    found = race()
    assert render.headline(found) == "regard / slow 2.00×, regard / fast 0.50×"
    found["rows"].append(found["rows"][0] | {"ratios": {"regard / slow": 3.0}})
    assert render.headline(found).startswith("regard / slow 2.00 to 3.00×")
    assert render.headline(STAMP) == ""


def test_the_document_is_what_the_results_make() -> None:
    assert (DOCS / "performance.md").read_text("utf-8") == render.document(render.recorded()), "run: regard bench --render"


def test_the_pictures_show_the_results() -> None:
    results = render.recorded()
    bars = (DOCS / render.PICTURE).read_text("utf-8")
    for result in results:
        for name, values in plot.by_ratio(result.get("rows", [])).items():
            assert f">{name}<" in bars, "run: regard bench --render"
            assert f">{statistics.geometric_mean(values):.2f}×<" in bars, "run: regard bench --render"
    linked = re.findall(r"\]\((images/[^)]+)\)", (DOCS / "performance.md").read_text("utf-8"))
    assert len(linked) == 1 + sum(bool(result.get("curves")) for result in results)
    assert all((DOCS / link).is_file() for link in linked)


def test_every_record_is_in_the_document_and_a_change_is_seen(tmp_path: Path) -> None:
    written = render.render([race(), STAMP | {"bleu": 41.98, "of": {"a|b": "x"}, "file": "own.cpu"}], tmp_path)
    assert [path.name for path in written] == ["performance.md", "performance.svg"]
    text = written[0].read_text("utf-8")
    for told in ("## A toy", "an abacus", "2026-01-02", "slow 1.0", "On the floor.", "| bleu | 41.98 |", "| of, a\\|b | x |"):
        assert told in text
    changed = race()
    changed["rows"][0]["systems"]["slow"]["median"] = 99.0
    assert render.document([changed]) != render.document([race()])


def test_broken_results_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.cpu.json").write_text("{")
    with pytest.raises(Exception, match=r"x\.cpu\.json is not JSON"):
        render.recorded(tmp_path)


# --------------------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def toy_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one subject, whose results go beside it."""
    folder = tmp_path / "benchmarks"
    (folder / "results").mkdir(parents=True)
    (folder / "measure.py").write_text('"""How."""\n')
    (folder / "toy.py").write_text(
        '"""What a toy costs.\n\nMore."""\n'
        "from benchmarks.measure import row, write\n"
        'rows = [row("one", "toys/s", 10, {"regard": [1.0, 1.0], "other": [4.0, 4.0]})]\n'
        'if __name__ == "__main__":\n'
        '    write("toy", title="Toys", setting="On the floor.", rows=rows, versions={})\n'
    )
    monkeypatch.setattr(sys, "path", list(sys.path))  # which the command may lengthen
    monkeypatch.setattr(bench, "FOLDER", folder)
    monkeypatch.setattr(measure, "RESULTS", folder / "results")
    return folder


def told(result: Result) -> str:
    assert (result.code, result.err) == (0, "")
    return result.out


def test_the_list_names_every_script() -> None:
    names = [line.split()[0] for line in told(regard("bench")).splitlines() if line and not line.startswith((" ", "Measure"))]
    assert {"attention", "cost_growth", "decode_beam", "demo", "probe_cost"} <= set(names)
    assert not {"measure", "render", "plot", "__init__"} & set(names)


def test_a_subject_is_listed_run_and_listed_with_its_result(toy_folder: Path) -> None:
    assert "toy              What a toy costs.\n\n" in told(regard("bench"))
    lines = told(regard("bench", "toy")).splitlines()
    assert lines[-2].split() == ["toys/s", "regard", "other"]
    assert lines[-1].split() == ["one", "10", "±0%", "2.5", "±0%,", "4.00×"]
    assert "regard / other 4.00×" in told(regard("bench"))
    assert json.loads(next((toy_folder / "results").iterdir()).read_text())["title"] == "Toys"


def test_render_writes_beside_the_benchmarks(toy_folder: Path) -> None:
    out = told(regard("bench", "toy", "--render"))
    page = toy_folder.parent / "docs" / "performance.md"
    assert f"written: {page}" in out
    assert "4.00×" in page.read_text("utf-8")


def test_an_unknown_subject_names_the_nearest(toy_folder: Path) -> None:
    refused(regard("bench", "toi"), "'toi'", "did you mean 'toy'?")
    assert not any((toy_folder / "results").iterdir())


def test_without_the_repository_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "FOLDER", tmp_path / "benchmarks")
    for arguments in ([], ["attention"], ["--render"]):
        refused(regard("bench", *arguments), "repository")


def test_a_missing_peer_is_named_and_our_own_faults_are_not_hidden(toy_folder: Path) -> None:
    script = toy_folder / "toy.py"
    script.write_text(f"import no_such_peer\n{script.read_text()}")
    refused(regard("bench", "toy"), "no_such_peer", "requirements-peers.txt")
    script.write_text("import benchmarks.no_such_file\nif __name__ == '__main__': pass")
    with pytest.raises(ModuleNotFoundError):
        regard("bench", "toy")


# --------------------------------------------------------------------------------------------------------------- the subjects

TINY = replace(attention.CPU, heads=2, tokens=64, lengths=(16, 32, 64), rounds=2)


def test_every_system_of_attention_gives_the_same_answer() -> None:
    rows = list(attention.cases(TINY))  # raises where they do not
    assert len(rows) == 3 * 4 * 2
    for row in rows:
        assert set(row["systems"]) == {"regard", "sdpa", "explicit", "regard layer", "nn.MultiheadAttention"}
        assert set(row["ratios"]) == {" / ".join(pair) for pair in attention.PAIRS}
    with pytest.raises(AssertionError):
        attention.agree([torch.zeros(3), torch.full((3,), 0.01)], 1e-3)


def test_long_cases_leave_out_what_would_not_fit() -> None:
    rows = list(attention.cases(replace(TINY, lengths=(64,), dense_up_to=32, explicit_up_to=32)))
    assert [row["case"].partition(",")[0] for row in rows] == ["full", "full", "causal", "causal"]
    assert all(set(row["systems"]) == {"regard", "sdpa"} for row in rows)


def test_the_backward_pass_is_taken_by_every_input() -> None:
    a, b = (torch.randn(4, requires_grad=True) for _ in range(2))
    gradients = attention.passes(lambda: a * b, [a, b])["forward + backward"]()
    assert isinstance(gradients, tuple)
    assert [torch.equal(*pair) for pair in zip(gradients, (b, a))] == [True, True]


@settings(max_examples=30)
@given(st.floats(-1, 3), st.floats(1e-6, 1e3))
def test_a_fit_finds_the_power(power: float, factor: float) -> None:
    lengths = [256, 512, 1024, 2048, 4096]
    values = [factor * n**power for n in lengths]
    values[:2] = [7.0, 0.1]  # the shortest are not fitted
    assert cost_growth.exponent(lengths, values) == pytest.approx(power, abs=1e-6)


def test_growth_holds_what_was_measured_beside_the_lecture() -> None:
    rows = cost_growth.measured(TINY)
    lengths = TINY.lengths
    for row, length in zip(rows["forward"], lengths):
        took = length / row["systems"]["recurrent"]["median"]
        assert cost_growth.milliseconds([row], "recurrent", [length]) == [pytest.approx(1000 * took)]
    values = {name: [float(n) ** 1.5 for n in lengths] for name in cost_growth.LECTURE}
    table = cost_growth.growth({"time": values}, lengths)
    assert table["columns"][3:] == ["time", "sequential operations", "longest path"]
    assert table["rows"][1] == ["recurrent", "nd²", "n^1", "n^1.50", "n", "n"]


def test_recorded_growth_is_the_lectures() -> None:
    (found,) = [each for each in render.recorded() if each["file"] == "cost_growth.cpu"]
    (table,) = found["tables"]
    place = table["columns"].index("time, forward + backward")
    power = {row[0]: float(row[place].removeprefix("n^")) for row in table["rows"]}
    assert power["self-attention"] == pytest.approx(2, abs=0.25)
    assert power["recurrent"] == pytest.approx(1, abs=0.25)
    assert power["convolution"] == pytest.approx(1, abs=0.25)
    assert power["restricted"] > 1.5  # a dense mask; a block-sparse kernel on a CPU would bring it to 1, and this line down

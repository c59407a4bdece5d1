"""`regard prune` and the views that change the model, given what they cannot use: one sentence, exit code 2, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import contents, copy_of_run, refused, regard, trained
from tests.tasks import tiny_text

MISTYPED = [
    (["--keep", "0"], "--keep 0 is not a share", "0.5"),
    (["--keep", "1.5"], "--keep 1.5 is not a share"),
    (["--keep", "nan"], "--keep nan is not a share"),
    (["--keep", "half"], "'--keep'", "'regard prune --help'"),
    (["--keep", "0.2"], "each of the 3 attentions keeps one", "0.5 or more"),
    (["--by", "chance"], "--by chance is not a way to choose heads", "random"),
    (["--by", "Importance"], "did you mean 'importance'?"),
    (["--by", "L0", "--penalty", "-1"], "a penalty of 0 or more"),
    (["--by", "L0", "--steps", "0"], "1 step or more"),
    (["--curve", "x.jpg"], "x.jpg must end in", ".png"),
    (["--curve", "no/x.png"], "--curve no/x.png cannot be written"),
    (["--data", "none.tsv"], "none.tsv"),
    (["--data", "three.tsv"], "three.tsv"),
    (["--data", "empty.tsv"], "empty.tsv"),
    (["decode.baem=3"], "did you mean 'decode.beam'?"),
    (["model.heads=4"], "model.heads=4"),
    (["--device", "gpu"], "--device gpu is not known"),
]


@pytest.mark.parametrize("case", MISTYPED, ids=lambda case: " ".join(case[0]))
def test_told_and_nothing_written(case: tuple[list[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "three.tsv").write_text("a\tb\tc\n")
    (tmp_path / "empty.tsv").write_text("")
    before = contents(tmp_path)
    arguments, *told = case
    refused(regard("prune", trained(), "out", *arguments), *told)
    assert contents(tmp_path) == before


def test_folders(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "kept.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    refused(regard("prune", tmp_path / "none", tmp_path / "out"), "does not exist")
    refused(regard("prune", tmp_path / "full", tmp_path / "out"), "is not a run")
    refused(regard("prune", trained(), tmp_path / "full"), "not an empty folder")
    refused(regard("prune", trained(), tmp_path / "file"), "not an empty folder")
    refused(regard("prune", trained()), "OUT")
    assert (tmp_path / "full" / "kept.txt").read_text() == "mine"
    assert not (tmp_path / "out").exists()


def test_no_validation_data(tmp_path: Path) -> None:
    """A language model may have held out a part of its training text, which is not a file that could be read again."""
    refused(regard("prune", tiny_text.trained(), tmp_path / "out"), "has no data.valid", "--data FILE")


def test_a_recipe_that_names_heads_it_does_not_have(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    text = (run / "recipe.toml").read_text()
    for entry, told in (
        ("encoder.0.self", "does not name heads"),
        ("encoder.7.self:0", "no attention 'encoder.7.self'"),
        ("encoder.0.self:9", "there is no head 9"),
        ("encoder.0.self:0+1", "without a head"),
    ):
        (run / "recipe.toml").write_text(text.replace("pruned = []", f'pruned = ["{entry}"]'))
        refused(regard("predict", run, "the cat"), told)
    (run / "recipe.toml").write_text(text.replace("pruned = []", 'pruned = ["encoder.0.self:0"]'))
    refused(regard("predict", run, "the cat"), "do not fit its recipe.toml")


VIEWS = [
    (["--show", "ablation"], "--show ablation needs a text"),
    (["the cat", "--show", "ablaton"], "did you mean 'ablation'?"),
    (["the cat", "--show", "flow", "--data", "x.tsv"], "--data is not for --show flow"),
    (["the cat", "--show", "positions"], "is not for --show positions"),
    (["the cat", "--show", "logits", "--head", "1"], "--head is not for --show logits"),
    (["--show", "importance", "--data", "none.tsv"], "none.tsv"),
    (["--show", "deletion", "--data", "three.tsv"], "three.tsv"),
    (["cat", "--show", "deletion"], "fewer than two words"),
]


@pytest.mark.parametrize("case", VIEWS, ids=lambda case: " ".join(case[0]))
def test_views(case: tuple[list[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "three.tsv").write_text("a\tb\tc\n")
    arguments, *told = case
    refused(regard("lens", trained(), *arguments), *told)


def test_a_text_too_long_for_flow() -> None:
    refused(
        regard("lens", trained(), "the cat sees the dog . " * 40, "--show", "flow"), "times as long as it may", "--show rollout"
    )

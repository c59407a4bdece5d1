"""`regard lens --show` asked for what it cannot show: one sentence, exit code 2, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.commands.views import SHOWS
from tests.command import contents, refused, regard, trained
from tests.tasks import tiny_labels, tiny_text

TEXT = "the cat sees the dog ."
MISTYPED = [
    ([TEXT, "--show", "hedas"], "--show hedas is not a way of looking", "did you mean 'heads'?"),
    ([TEXT, "--show", ""], "--show is an empty text"),
    ([TEXT, "--show", "x" * 5], "is not a way of looking", "heads", "roles", "weights"),
    (["--show", "heads"], "--show heads needs a text to look into"),
    (["--show", "weights"], "--show weights needs a text"),
    (["--show", "roles"], "--show roles needs a text, or --data FILE.conllu"),
    ([" ", "--show", "heads"], "the text is empty"),
    ([TEXT, "another", "--show", "heads"], "one text is drawn at a time", "'another' is a second"),
    ([TEXT, "--show", "heads", "--head", "1"], "--head is not for --show heads", "--target"),
    ([TEXT, "--show", "heads", "--layer", "1"], "--layer is not for --show heads"),
    ([TEXT, "--show", "positions"], "the text 'the cat", "is not for --show positions, which takes no text"),
    ([TEXT, "--show", "bias"], "the text 'the cat", "is not for --show bias, which takes no text"),
    (["--show", "bias"], "this model adds no bias by distance to its scores", "model.position=relative"),
    ([TEXT, "--show", "heads", "--words"], "--words is not for --show heads"),
    ([TEXT, "--show", "heads", "--part", "cross"], "--part is not for --show heads"),
    ([TEXT, "--show", "weights", "--data", "x.conllu"], "--data is not for --show weights"),
    ([TEXT, "--show", "weights", "--part", "crosss"], "--part crosss is not a part", "did you mean 'cross'?"),
    ([TEXT, "--show", "weights", "--layer", "7"], "--layer 7 is not there", "layers 0 to 0"),
    ([TEXT, "--show", "weights", "--head", "2"], "--head 2 is not there", "0 to 1"),
    ([TEXT, "--show", "weights", "--head", "two"], "'--head'", "'regard lens --help'"),
    ([TEXT, "--show", "weights", "--specials", "drop"], "--specials drop is not known", "renormalise"),
    ([TEXT, "--show", "weights", "--hypothesis", "9"], "--hypothesis 9 was not found", "kept 2"),
    ([TEXT, "--show", "weights", "--hypothesis", "-1"], "--hypothesis -1 was not found"),
    ([TEXT, "--show", "weights", "--hypothesis", "0", "--target", "le chat"], "both a target and --hypothesis 0"),
    ([TEXT, "--show", "heads", "--target", " "], "the target is empty"),
    ([TEXT, "--show", "heads", "--out", "x.pdf"], "x.pdf must end in", ".png"),
    ([TEXT, "--show", "heads", "--out", "no/x.png"], "there is no folder no"),
    ([TEXT, "--show", "heads", "--out", "."], ". must end in"),
    ([TEXT, "--show", "heads", "--file", "x.txt"], "--file x.txt is only for --word"),
    ([TEXT, "--show", "heads", "--word", "cat"], "--show heads is not for --word"),
    ([TEXT, "--head", "1"], "--head 1 is only for --show"),
    ([TEXT, "--words"], "--words is only for --show"),
    ([TEXT, "--hypothesis", "0"], "--hypothesis 0 is only for --show"),
    ([TEXT, "--show", "roles", "--data", "x.conllu"], "x.conllu does not exist"),
    ([TEXT, "--show", "roles", "--data", "."], "is a folder"),
]


@pytest.mark.parametrize("case", MISTYPED, ids=lambda case: " ".join(case[0])[:60])
def test_what_is_mistyped_is_told(case: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained().resolve()
    monkeypatch.chdir(tmp_path)
    arguments, *told = case
    refused(regard("lens", run, *arguments), *told)
    assert not contents(tmp_path)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("the cat sees\n", "line 1: columns found: 1, expected: 10"),
        ("# only a comment\n", "has no sentences"),
        ("1\tcat\t_\t_\t_\t_\t_\t_\t_\t_\n", "has the head '_'"),
        ("1\tcat\t_\t_\t_\t_\t0\troot\t_\t_\n", "no relation occurs 10 times in each half of 1 sentences"),
    ],
)
def test_a_treebank_that_is_none_is_told_by_its_line(content: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "x.conllu").write_text(content)
    refused(
        regard("lens", tiny_text.trained(), "--show", "roles", "--data", tmp_path / "x.conllu", "--out", tmp_path / "x.png"), told
    )
    assert not (tmp_path / "x.png").exists()


def test_models_are_asked_what_they_can_answer(tmp_path: Path) -> None:
    refused(regard("lens", tiny_labels.trained(), "the cat", "--show", "weights", "--hypothesis", "0"), "models that write")
    refused(regard("lens", tiny_labels.trained(), "the cat", "--show", "weights", "--part", "cross"), "it has decoder")
    refused(regard("lens", tiny_labels.trained(), "the cat", "--show", "heads", "--target", "goood"), "did you mean 'good'?")
    refused(regard("lens", tiny_text.trained(), "the cat sees " * 20, "--show", "heads"), "sees 16 at a time")
    refused(regard("lens", tmp_path, "the cat", "--show", "heads"), "is not a run")


@pytest.mark.parametrize("ending", ["png", "svg", "html", "json"])
@pytest.mark.parametrize("view", ["heads", "weights", "roles"])
def test_what_is_well_typed_is_shown_and_drawn(view: str, ending: str, tmp_path: Path) -> None:
    out = tmp_path / f"x.{ending}"
    shown = regard("lens", trained(), TEXT, "--show", view, "--out", out)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("the cat sees the dog . → ")
    assert shown.out.endswith(f"drawn: {out}\n")
    assert out.stat().st_size > 500


def test_every_view_says_what_it_is_for() -> None:
    assert {"heads", "weights", "roles"} <= set(SHOWS)
    for name, view in SHOWS.items():
        assert 10 < len(view.help) < 130, name
        assert not view.help.endswith("."), name

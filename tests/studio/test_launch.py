"""Real runs before the page: names, desks of every task, searches that can be seen, and snapshots of a training."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from regard.commands.train import train_run
from regard.core.errors import UserError
from regard.runs.recipe import load_recipe
from regard.studio.launch import RunFolderHandle, Served, listed, serve
from regard.studio.passes import PassRequest, run_pass
from regard.studio.run_session import RunSession
from regard.studio.session import Runs
from regard.tasks.translation.predict import Translator
from regard.text.specials import EOS
from tests.tasks.tiny_text import CPU, quiet, trained

SENTENCE = "the cat sees the dog"
TINY = [
    *("data.limit=200", "train.steps=8", "train.warmup=2", "train.tokens_per_batch=400", "train.snapshot_every=4"),
    *("train.validate_every=8", "train.checkpoint_every=8", "train.keep=1", "train.average=1", "decode.maximum_length=8"),
    *("model.width=16", "model.heads=2", "model.layers=1", "model.feedforward=16", "data.valid=", "data.test="),
]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    data = folder.with_name("pairs.tsv")
    words = [("the", "le"), ("cat", "chat"), ("dog", "chien"), ("sees", "voit")]
    lines = [tuple(" ".join(words[(n + k * n) % 4][side] for k in range(2 + n % 4)) for side in (0, 1)) for n in range(80)]
    data.write_text("".join(f"{source}\t{target}\n" for source, target in lines), "utf-8")
    settings = [f"data.train={data}", f"data.valid={data}", *TINY[:-2]]
    with patch("regard.training.logging.draw_curves"), patch.dict(os.environ, REGARD_CACHE=str(folder.with_name("cache"))):
        train_run(load_recipe("translate", settings), folder, CPU, quiet)
    return folder


def desk_of(folder: Path, step: int | None = None) -> RunSession:
    (opening,) = listed([str(folder)], "cpu").values()
    return opening.open(step)


def test_runs_are_called_by_their_folders_unless_two_are_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("runs/a", "runs/b", "other/a"):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "recipe.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert list(listed([], "cpu")) == ["a", "b"]
    assert list(listed(["runs/b"], "cpu")) == ["b"]
    assert list(listed(["runs/a", "other/a", "runs/b"], "cpu")) == ["runs/a", "other/a", "b"]
    with pytest.raises(UserError, match="does not exist"):
        listed(["runs/c"], "cpu")
    monkeypatch.chdir(tmp_path / "other" / "a")
    with pytest.raises(UserError, match="regard demo"):
        listed([], "cpu")


def test_only_listed_runs_and_steps_are_opened(translator: Path) -> None:
    runs = Runs(listed([str(translator)], "cpu"))
    for name in (str(translator), "../tiny", "", "tin"):
        with pytest.raises(UserError, match="there is no run"):
            runs.session(name)
    with pytest.raises(UserError, match="steps 4, 8"):
        runs.session("tiny", 5)
    assert not runs.is_open("tiny")
    assert runs.session("tiny") is runs.session("tiny")
    assert runs.is_open("tiny")


def test_a_translator_is_looked_into_and_what_it_says_is_what_it_is_asked_for(translator: Path) -> None:
    session = desk_of(translator)
    found = run_pass(PassRequest("tiny", SENTENCE), session, Runs({}).alone(session))
    assert found.faith.holds
    assert session.answer(SENTENCE) == Translator.open(translator, "cpu")(SENTENCE)
    assert found.subject.title == f"{SENTENCE} → {session.answer(SENTENCE)}"
    assert dict(session.facts)["family"] == "transformer"


def test_the_tree_ends_where_the_translation_does(translator: Path) -> None:
    session = desk_of(translator)
    beam = Translator.open(translator, "cpu").decode.beam
    tree = session.search(SENTENCE, beam, [])
    assert isinstance(session.answers, Translator)
    best = session.answers.translate([SENTENCE])[0][0]
    assert tree.hypotheses[0].ids == best.ids
    assert tree.hypotheses[0].score == pytest.approx(best.score, abs=1e-5)
    tokens, weights = session.alignment(SENTENCE, tree.hypotheses[0].ids[:2])
    assert len(tokens) == len(weights)
    assert sum(weights) == pytest.approx(1, abs=1e-5)
    forced = session.search(SENTENCE, 2, session.target_tokenizer.encode("chien"))
    assert session.target_tokenizer.decode(forced.hypotheses[0].ids).startswith("chien")
    for bad in ([10**6], [EOS]):
        with pytest.raises(UserError, match="not a piece"):
            session.search(SENTENCE, 2, bad)


def test_snapshots_are_what_the_run_was_then(translator: Path) -> None:
    early, late, end = desk_of(translator, 4), desk_of(translator, 8), desk_of(translator)
    subjects = [session.subject(SENTENCE, "le chat voit") for session in (early, late, end)]
    with torch.no_grad():
        first, last, whole = (subject.forward(1) for subject in subjects)
    assert (first - whole).abs().max() > 1e-2
    torch.testing.assert_close(last, whole, atol=2e-2, rtol=2e-2)
    assert "step 4" in dict(early.facts)["weights"]


def test_a_language_model_goes_on_and_its_search_can_be_seen() -> None:
    session = desk_of(trained())
    assert session.task == "language_model"
    assert session.answer("the cat")
    tree = session.search("the cat", 2, [])
    assert len(tree.hypotheses) == 2
    found = run_pass(PassRequest("run", "the cat sees"), session, Runs({}).alone(session))
    assert found.faith.holds
    _, weights = session.alignment("the cat", tree.hypotheses[0].ids[:1])
    assert sum(weights) == pytest.approx(1, abs=1e-5)
    with pytest.raises(UserError):
        session.search("the cat " * 40, 2, [])


def test_words_have_neighbours_and_uses(translator: Path) -> None:
    session = desk_of(translator)
    near = session.vocabulary().near("cat")["near"]
    assert near[0]["cosine"] < 1
    assert session.vocabulary().between_positions() is not None
    uses = session.uses("cat", ["the cat sees", "the dog sees the cat"])
    assert len(uses.uses) == 2
    with pytest.raises(UserError):
        session.vocabulary().near("xylophone")


def test_roles_stand_beside_random_weights(translator: Path) -> None:
    found = desk_of(translator).roles(SENTENCE, None)
    assert len(found.heads) == 6
    assert found.random["broad"]


def test_a_text_without_end_is_refused_before_it_is_read(translator: Path) -> None:
    with pytest.raises(UserError, match="8,192"):
        desk_of(translator).subject("cat dog " * 5000, None)


def started(folder: Path, served: Served) -> str:
    """What is printed where it is started; nothing is served."""
    said: list[str] = []
    with patch("regard.studio.server.Server.run"), patch("regard.studio.app.create"), patch("webbrowser.open"):
        serve([str(folder)], served, "cpu", said.append)
    return "\n".join(said)


def test_a_public_address_has_a_key_that_is_printed_once_or_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, key = tmp_path / "run", tmp_path / "studio.key"
    run.mkdir()
    (run / "recipe.toml").write_text("")
    key.write_text("a key of my own\n")
    key.chmod(0o600)
    assert "?key=" not in started(run, Served(port=0, browser=False))
    public = Served(host="0.0.0.0", port=0, browser=False)
    first, second = (started(run, public).partition("?key=")[2].split()[0] for _ in range(2))
    assert len(first) >= 24
    assert first != second
    given = started(run, replace(public, key_file=key))
    assert "key" not in given.replace("runs", "")
    key.chmod(0o644)
    assert f"chmod 600 {key}" in started(run, replace(public, key_file=key))
    monkeypatch.setenv("REGARD_STUDIO_KEY", "a key of my own")
    assert "?key=" not in started(run, public)


def test_a_run_is_told_from_another_in_its_place_and_not_from_a_copy(translator: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(translator, folder)
    (opening,) = listed([str(folder)], "cpu").values()
    first = opening.version()
    assert first == RunFolderHandle(str(translator), "cpu").version() is not None
    shutil.rmtree(folder)
    assert opening.version() is None
    shutil.copytree(trained(), folder)
    assert opening.version() not in (None, first)
    shutil.rmtree(folder)
    shutil.copytree(translator, folder)
    assert opening.version() == first
    shutil.copytree(folder / "checkpoints" / "best-00000008", folder / "checkpoints" / "best-00000009")  # trained further
    assert opening.version() not in (None, first)
    (folder / "recipe.toml").unlink()
    os.mkfifo(folder / "recipe.toml")
    assert opening.version() is None

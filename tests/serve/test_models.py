"""Models by name, and newer files of a run while it is served."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.core.errors import UserError
from regard.serve.engine import Engine
from regard.serve.models import Models, RunSource, ServedModel
from regard.tasks.registry import open_run
from regard.tasks.run_version import labelled, run_version
from tests.command import contents, copy_of_run, trained
from tests.serve.served import app_of, model_of
from tests.serve.tiny_models import opened
from tests.tasks.tiny_labels import trained as labelling

TEXT = "the cat sees the dog ."


@pytest.fixture
def served(tmp_path: Path) -> Models:
    source = RunSource(str(copy_of_run(tmp_path)), "cpu")
    return Models({"run": ServedModel.start("run", source, Engine)})


def set_beam(run: Path, beam: int) -> None:
    path = run / "recipe.toml"
    path.write_text(path.read_text("utf-8").replace("beam = 2", f"beam = {beam}"))


def test_newer_settings_and_weights_are_served_without_a_restart(served: Models, tmp_path: Path) -> None:
    model, said = served.served["run"], list[str]()
    with TestClient(app_of(model), base_url="http://127.0.0.1") as client:
        before = client.post("/v1/translate", json={"text": TEXT}).json()["outputs"][0][0]["text"]
        assert before == open_run(trained(), "cpu")(TEXT)
        served.reload(said.append)
        assert said == []
        set_beam(tmp_path / "run", 3)
        served.reload(said.append)
        assert said == ["run is served from its newer files now."]
        assert model.decode.beam == 3
        after = client.post("/v1/translate", json={"text": TEXT}).json()["outputs"][0][0]["text"]
        assert after == open_run(tmp_path / "run", "cpu")(TEXT)
    served.close(drain=True)


def test_a_run_that_cannot_be_read_stays_as_it_was(served: Models, tmp_path: Path) -> None:
    run, said, opened_before = tmp_path / "run", list[str](), served.served["run"].opened
    (run / "recipe.toml").rename(run / "moved")
    served.reload(said.append)
    assert said == []  # as while a folder is being replaced
    (run / "moved").rename(run / "recipe.toml")
    set_beam(run, 5000)
    served.reload(said.append)
    assert len(said) == 1
    assert said[0].startswith("run stays as it is: decode.beam is 5000")
    assert served.served["run"].opened is opened_before
    served.close(drain=True)


def test_a_run_of_another_task_is_not_served_in_the_place_of_one(served: Models, tmp_path: Path) -> None:
    said = list[str]()
    shutil.rmtree(tmp_path / "run")
    shutil.copytree(labelling(), tmp_path / "run")
    served.reload(said.append)
    assert "another task; restart the server" in said[0]
    served.close(drain=True)


def test_a_version_depends_on_content_and_not_on_times(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    before = run_version(str(run))
    for path in run.rglob("*"):
        os.utime(path, (1, 1))
    assert run_version(str(run)) == before == run_version(str(trained()))
    set_beam(run, 3)
    assert run_version(str(run)) != before
    assert run_version(str(tmp_path / "none")) is None
    assert contents(run).keys() == contents(trained()).keys()


def test_runs_of_one_name_keep_their_paths(tmp_path: Path) -> None:
    other = copy_of_run(tmp_path)
    assert labelled([str(other)], "serve") == {"run": str(other)}
    assert set(labelled([str(other), str(trained())], "serve")) == {str(other), str(trained())}


class Silent:
    """A predictor with nothing to serve."""

    model, tokenizer = None, None

    def predict(self, *arguments: object) -> None: ...

    def evaluate(self, test: object) -> None: ...


def test_a_model_without_a_route_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunSource, "load", lambda self: Silent())
    with pytest.raises(UserError, match="nothing that is served over HTTP"):
        ServedModel.start("silent", RunSource("silent"), lambda predictor: Engine(predictor))


def test_answers_are_those_of_the_predictor_alone() -> None:
    """Inputs of several requests share a pass; each gets its own result."""

    def answers(name: str, path: str, body: dict[str, object]) -> dict[str, Any]:
        model = model_of(name, opened(name), Engine(opened(name)))
        with TestClient(app_of(model), base_url="http://127.0.0.1") as client:
            found: dict[str, Any] = client.post(path, json=body).json()
        model.engine.close(drain=True)
        return found

    texts = ["the old cat is nice", "the wet dog is not nice today", "x"]
    classified = answers("classifier", "/v1/classify", {"text": texts})
    assert [one["label"] for one in classified["results"]] == opened("classifier")(texts)
    for one, own in zip(classified["results"], opened("classifier").classify(texts)):
        assert one["probabilities"] == pytest.approx(own.probabilities, abs=1e-6)
    tagged = answers("tagger", "/v1/tag", {"text": ["Ann Lee left New Oslo .", "Bob"]})
    own_tags = opened("tagger").tag(["Ann Lee left New Oslo .", "Bob"])
    assert [[one["text"] for one in part["entities"]] for part in tagged["results"]] == [
        [entity.text for entity in found.entities] for found in own_tags
    ]
    asked = {"question": "Which animal?", "context": "Today, the blue cat sleeps.", "top": 2}
    found = answers("answerer", "/v1/answer", asked)
    own_answers = opened("answerer").answer([(asked["question"], asked["context"])])[0][:2]
    assert [one["text"] for one in found["answers"]] == [one.text for one in own_answers]

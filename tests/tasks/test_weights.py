"""`--weights`: other weights of a run than those it is used with, and which ones a score is of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import SENTENCES, copy_of_run, refused, regard, trained

TEXT = SENTENCES[0][0]


@pytest.mark.parametrize(
    ("choice", "used"),
    [("", "best-00000020"), ("last", "step-00000020"), ("best", "best-00000020"), ("step-10", "step-00000010")],
)
def test_a_score_names_the_weights_it_is_of(choice: str, used: str) -> None:
    chosen = ["--weights", choice] if choice else []
    assert regard("evaluate", trained(), *chosen).out.endswith(f"\nweights    {used}\n")
    told = json.loads(regard("evaluate", trained(), *chosen, "--json").out)
    assert told["weights"] == used


def test_other_weights_have_another_score_and_other_outputs() -> None:
    losses = [
        json.loads(regard("predict", trained(), TEXT, "--json", "--weights", choice).out)["outputs"][0]["logprob"]
        for choice in ("step-10", "step-20", "last")
    ]
    assert losses[0] != losses[1] == losses[2]


def test_weights_that_are_not_there(tmp_path: Path) -> None:
    kept = "step-00000010, step-00000020, best-00000020"
    refused(regard("evaluate", trained(), "--weights", "step-15"), "'step-15'", kept)
    refused(regard("predict", trained(), TEXT, "--weights", "worst"), "'worst'", kept)
    refused(regard("evaluate", trained(), "--weights", "average"), "no average weights", kept)


def test_damaged_weights_are_not_replaced_by_others_when_they_were_asked_for(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    (run / "checkpoints" / "step-00000010" / "model.safetensors").write_bytes(b"")
    refused(regard("evaluate", run, "--weights", "step-10"), "step-00000010 is damaged", "choose another")


def test_a_file_of_vectors_has_no_other_weights(tmp_path: Path) -> None:
    (tmp_path / "some.vec").write_text("2 2\na 0 1\nb 1 0\n")
    refused(regard("predict", tmp_path / "some.vec", "a", "--weights", "last"), "leave it out")
    refused(regard("evaluate", tmp_path / "some.vec", "--weights", "last"), "leave it out")

"""A run over batches of columns: what the command answers for the same rows, without Ray and, where it is installed, with it."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard as library
from regard.core.errors import UserError
from tests.command import SENTENCES, regard, trained
from tests.tasks.tiny_labels import ROWS
from tests.tasks.tiny_labels import trained as labeller
from tests.tasks.tiny_text import stories, write_stories
from tests.tasks.tiny_text import train as train_writer

TEXTS = [*(source for source, _ in SENTENCES), "", "the cat"] * 2


def column(*values: Any) -> np.ndarray:
    return np.array(values, dtype=object)


def lines_of(run: Path, texts: list[str], folder: Path, *settings: str) -> list[str]:
    (folder / "texts").write_text("".join(f"{text}\n" for text in texts))
    ended = regard("predict", run, "--input", folder / "texts", "--device", "cpu", *settings)
    assert ended.code == 0, ended.err
    return ended.out.split("\n")[:-1]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_text_gets_the_line_of_the_command(as_json: bool, tmp_path: Path) -> None:
    answers = library.BatchPredictor(str(trained()), {"decode.beam": 3}, as_json=as_json, device="cpu")
    found = answers({"text": column(*TEXTS), "id": np.arange(len(TEXTS))})
    assert list(found) == ["text", "id", "predicted"]
    assert found["id"].tolist() == list(range(len(TEXTS)))
    assert [line or "" for line in found["predicted"]] == lines_of(
        trained(), TEXTS, tmp_path, "decode.beam=3", *["--json"] * as_json
    )


def test_a_model_of_tables_adds_the_columns_it_adds_there(tmp_path: Path) -> None:
    texts = [text for text, _ in ROWS[:70]]
    texts[3] = " "
    (tmp_path / "table.csv").write_text("text\n" + "".join(f'"{text}"\n' for text in texts))
    ended = regard("predict", labeller(), "--input", tmp_path / "table.csv", "--device", "cpu")
    expected = list(csv.DictReader(ended.out.splitlines()))
    found = library.BatchPredictor(str(labeller()), device="cpu")({"text": column(*texts)})
    assert [value or "" for value in found["predicted"]] == [row["predicted"] for row in expected]
    assert found["probability"].dtype == np.float64
    assert np.isnan(found["probability"][3])
    assert [f"{p:.4f}" for p in np.delete(found["probability"], 3)] == [r["probability"] for r in expected if r["predicted"]]


def test_a_pair_is_two_columns() -> None:
    answers = library.BatchPredictor(str(labeller(pairs=True)), columns=("a", "b"), device="cpu")
    typed = regard("predict", labeller(pairs=True), "the cat\tthe dog", "--device", "cpu").out
    found = answers({"a": column("the cat"), "b": column("the dog")})
    assert f"{found['predicted'][0]}\t{found['probability'][0]:.4f}\n" == typed


def test_what_is_drawn_depends_on_the_number_of_the_row_wherever_it_is(tmp_path: Path) -> None:
    train_writer(tmp_path / "run", write_stories(tmp_path / "stories.jsonl", stories(30)))
    expected = lines_of(tmp_path / "run", ["the cat"] * 40, tmp_path, "decode.seed=3")
    answers = library.BatchPredictor(str(tmp_path / "run"), {"decode.seed": 3}, number="id", device="cpu")
    numbers = [7, 8, 9, 30, 0, 1, 39]
    found = answers({"id": np.array(numbers), "text": column(*["the cat"] * len(numbers))})
    assert found["predicted"].tolist() == [expected[number] for number in numbers]
    assert len(set(expected)) > 5
    two = library.BatchPredictor(str(tmp_path / "run"), {"decode.samples": 2}, number="id", device="cpu")
    with pytest.raises(UserError, match="writes 4 lines for 2 texts; give as_json=True"):
        two({"id": [0, 1], "text": ["the cat"] * 2})
    with pytest.raises(UserError, match="give number='COLUMN'"):
        library.BatchPredictor(str(tmp_path / "run"), device="cpu")


@pytest.mark.parametrize(
    ("batch", "options", "told"),
    [
        ({"line": column("a")}, {}, "no column 'text', but 'line'"),
        ({"text": column("a", None)}, {}, "row 1 of a batch has None in column 'text'"),
        ({"text": np.array([1.0])}, {}, "which is no text"),
        ({"text": column("a"), "predicted": column("b")}, {}, "has a column 'predicted' already"),
        ({"text": column("a")}, {"number": "id"}, "no column 'id'"),
        ({"text": column("a"), "id": column("7b")}, {"number": "id"}, "'7b' in column 'id', which is no whole number"),
    ],
)
def test_a_batch_that_cannot_be_answered_is_refused(batch: dict[str, Any], options: dict[str, Any], told: str) -> None:
    answers = library.BatchPredictor(str(trained()), device="cpu", **options)
    with pytest.raises(UserError, match=told):
        answers(batch)


def test_ray_data_answers_in_two_processes(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    ray_data = pytest.importorskip("ray.data")
    expected = dict(zip(TEXTS, lines_of(trained(), TEXTS, tmp_path)))

    class Answers(library.BatchPredictor):
        """Says in which process it was."""

        def __call__(self, batch: Any) -> dict[str, Any]:
            return {**super().__call__(batch), "process": np.full(len(batch["text"]), os.getpid())}

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
    try:
        given = ray_data.from_items([{"text": text, "id": n} for n, text in enumerate(TEXTS)], override_num_blocks=8)
        answered = given.map_batches(
            Answers, fn_constructor_args=(str(trained()),), fn_constructor_kwargs={"device": "cpu"}, concurrency=2, batch_size=8
        )
        rows = sorted(answered.take_all(), key=lambda row: row["id"])
    finally:
        ray.shutdown()
    assert [row["text"] for row in rows] == TEXTS
    assert [row["predicted"] for row in rows] == [expected[text] or None for text in TEXTS]
    assert len({row["process"] for row in rows} - {os.getpid()}) == 2

"""Vectors that were learned before stand in a model's table when its training begins, and stay there if they are frozen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from regard.commands.train import prepare_run, train_run
from regard.core.errors import UserError
from regard.data.sources.word_vectors import WordVectors, write_vectors
from regard.runs.folder import Run
from regard.runs.recipe import Recipe, load_recipe
from regard.runs.task import TASKS
from regard.tasks.registry import open_run
from regard.tasks.word_init import fill_vectors, tables
from regard.text.tokenizer import whole_words
from tests.tasks.tiny_words import ANIMALS, CPU, quiet, text_file, trained

SMALL = ["model.width=16", "model.heads=2", "model.layers=1", "model.feedforward=32", "train.steps=3", "train.warmup=1"]
SMALL += ["train.validate_every=3", "train.checkpoint_every=3"]
WORDS = ["text.tokenizer=spaced", "text.size=100", "text.minimum_count=1"]
GPT = [
    f"data.train={text_file()}",
    "data.valid=",
    "data.test=",
    "model.maximum_length=16",
    "data.window=16",
    "data.stride=0",
    "train.tokens_per_batch=128",
]


def recipe(name: str, *more: str) -> Recipe:
    return load_recipe(name, [*SMALL, *WORDS, *more])


def labelled(folder: Path) -> list[str]:
    path = folder / "labelled.tsv"
    path.write_text("".join(f"{word} eats\tanimal\nred paint\tcolour\n" for word in ANIMALS))
    return [f"data.train={path}", f"data.valid={path}", "data.test="]


def pairs(folder: Path) -> list[str]:
    for side in ("en", "fr"):
        (folder / f"x.{side}").write_text("cat eats\nred paint\ndog sleeps\n" * 5)
    where = f"{folder}/x.en,{folder}/x.fr"
    return [f"data.train={where}", f"data.valid={where}", "data.test="]


@pytest.mark.parametrize("name", ["gpt", "bert", "translate", "translate-separate", "bert-classify"])
def test_rows_of_known_words_are_their_vectors_scaled_alike(name: str, tmp_path: Path) -> None:
    run = str(trained())
    data = GPT if name in ("gpt", "bert") else labelled(tmp_path) if name == "bert-classify" else pairs(tmp_path)
    data = [*data, "text.joint=false", "model.tie=none"] if name == "translate-separate" else data
    made = recipe(name.removesuffix("-separate"), *data, f"text.vectors={run}")
    prepared = TASKS[made.task.name].prepare(made, None, quiet)
    model, drawn = prepared.model(), prepared.model()
    fill_vectors(model, prepared, quiet)
    vectors = open_run(run, "cpu").vectors  # type: ignore[attr-defined]
    found = tables(model, prepared)
    assert len(found) == (2 if name == "translate-separate" else 1)
    for (tokens, tokenizer), (before, _) in zip(found, tables(drawn, prepared)):
        scales = []
        for i, word in enumerate(whole_words(tokenizer)):
            if word in vectors.numbers:
                scales.append(tokens.weight[i].detach().numpy() / vectors[word])
            else:
                assert torch.equal(tokens.weight[i], before.weight[i])
        assert len(scales) >= 6
        assert np.allclose(np.array(scales), scales[0][0], rtol=1e-4)
        rms = [t.weight.detach().pow(2).mean().sqrt().item() for t in (tokens, before)]
        assert rms[0] == pytest.approx(rms[1], rel=0.3)


@pytest.mark.parametrize("frozen", [True, False])
def test_frozen_vectors_stay_and_others_move(frozen: bool, tmp_path: Path) -> None:
    run = str(trained())
    made = recipe("gpt", *GPT, f"text.vectors={run}", f"text.freeze_vectors={str(frozen).lower()}", "train.weight_decay=0")
    made_of = prepare_run(made, tmp_path / "run", CPU, quiet)
    start = made_of.model()
    fill_vectors(start, made_of, quiet)
    (tokens, tokenizer), *_ = tables(start, made_of)
    outcome = train_run(made, tmp_path / "run", CPU, quiet)
    after = Run.open(outcome.run.folder).store().newest("step").tensors("model")["embed.tokens.weight"]  # type: ignore[union-attr]
    known = [i for i, word in enumerate(whole_words(tokenizer)) if word is not None]
    moved = (after != tokens.weight.detach()).any(1)
    assert moved[known].any() != frozen
    assert frozen or moved[known].all()
    assert moved.any()  # the line end's and the end token's rows are learned


def test_a_run_with_vectors_needs_their_file_no_more(tmp_path: Path) -> None:
    export = tmp_path / "v.vec"
    write_vectors(export, open_run(trained(), "cpu").vectors, "word2vec")  # type: ignore[attr-defined]
    train_run(recipe("gpt", *GPT, f"text.vectors={export}"), tmp_path / "run", CPU, quiet)
    export.unlink()
    assert open_run(tmp_path / "run", "cpu")
    again = load_recipe("gpt", [*SMALL, *GPT, f"task.init_from={tmp_path / 'run'}"])
    assert again.text.vectors == ""


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["text.vectors={wide}"], "vectors are 3 wide, this model's words 16; set model.width=3"),
        (["text.vectors={other}"], "none of its 2 words, such as 'bonjour'"),
        (["text.vectors=nowhere"], "nowhere does not exist"),
        (["text.vectors={run}", "text.tokenizer=bpe", "text.size=60"], "pieces of words; set text.tokenizer=word"),
        (["text.freeze_vectors=true"], "give these too"),
        (["text.vectors={run}", "text.freeze_vectors=true", "train.weight_decay=0.1"], "train.weight_decay would shrink"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(settings: list[str], says: str, tmp_path: Path) -> None:
    write_vectors(tmp_path / "wide.vec", WordVectors(("cat",), np.ones((1, 3), np.float32)), "glove")
    write_vectors(tmp_path / "other.vec", WordVectors(("bonjour", "monde"), np.ones((2, 16), np.float32)), "glove")
    names = {"wide": tmp_path / "wide.vec", "other": tmp_path / "other.vec", "run": trained()}
    decay = [] if any("weight_decay" in each for each in settings) else ["train.weight_decay=0"]
    made = recipe("gpt", *GPT, *decay, *(each.format(**names) for each in settings))
    with pytest.raises(UserError, match=says):
        prepare_run(made, tmp_path / "run", CPU, quiet)
    assert not (tmp_path / "run").exists()

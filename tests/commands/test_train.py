"""What a finished training tells people to type next is what works, for every recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.commands.train import to_look, to_try
from regard.runs.recipe import builtin_names, load_recipe
from tests.command import refused, regard
from tests.tasks import tiny_questions, tiny_recurrent

RUN = Path("runs/x")
NOTHING = ("chat-retrieval", "chat-words", "skipgram", "cbow", "glove", "elmo", "translate-rnn")
WITHOUT_INPUT = (
    "image_generation",
    "masked_image_modeling",
    "forecasting",
)  # of a run, without more


@pytest.mark.parametrize("name", builtin_names())
def test_who_has_nothing_to_draw_is_not_sent_to_lens(name: str) -> None:
    recipe = load_recipe(name)
    look = to_look(recipe, RUN)
    assert (look is None) == (name in NOTHING or recipe.task.name in WITHOUT_INPUT or recipe.model.family == "convnet")
    assert to_try(recipe, RUN).startswith("regard predict runs/x ")
    if look:
        reads = recipe.task.name in ("classification", "tagging", "question_answering", "masked_lm") and name != "classify-han"
        assert look.endswith("--show weights") == reads


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("translate", '"..."'),
        ("bert-answer", "$'QUESTION\\tTEXT'"),
        ("bert", '"... [MASK] ..."'),
        ("electra", '"..."'),
        ("caption-scenes", "IMAGE.png"),
        ("glove", "WORD"),
    ],
)
def test_what_is_asked(name: str, asked: str) -> None:
    assert to_try(load_recipe(name), RUN) == f"regard predict runs/x {asked}"


def test_a_question_is_asked_as_the_hint_says() -> None:
    run = tiny_questions.trained()
    told = regard("predict", run, "Which animal?\ta cat and a dog")
    assert told.code == 0
    assert regard("lens", run, "Which animal?\ta cat and a dog", "--show", "weights").code == 0
    refused(regard("lens", run, "Which animal?\ta cat and a dog"), "does not write", "--show weights")


def test_a_model_that_looks_at_nothing_says_so_alone() -> None:
    message = refused(regard("lens", tiny_recurrent.trained("none"), "the cat"), "looks at nothing", "model.attention=none")
    assert "--part" not in message

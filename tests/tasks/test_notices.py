"""Words that a model does not know: told by name, once, beside the output and never in it."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from regard.tasks.dialogue.predict import Fit, Responder
from regard.tasks.registry import open_run
from regard.tasks.translation.predict import Translator
from regard.text.tokenizer import Tokenizer, train_tokenizer
from tests.command import regard, trained
from tests.tasks.tiny_text import trained as writer

TEXT = "the hovercraft sees the Eels ."


def told(err: str) -> list[str]:
    return [line for line in err.splitlines() if line.startswith("unknown: ")]


def test_predict_names_them_once_and_not_in_its_output(tmp_path: Path) -> None:
    found = regard("predict", trained(), TEXT, "the cat sees the hovercraft .", "--device", "cpu")
    assert found.code == 0, found.err
    (line,) = told(found.err)
    assert line.startswith("unknown: hovercraft, Eels (not in the vocabulary")
    assert "unknown" not in found.out
    (tmp_path / "in.txt").write_text(f"{TEXT}\n" * 3)
    for given in (
        regard("predict", trained(), "--input", tmp_path / "in.txt", "--device", "cpu"),
        regard("predict", trained(), "--device", "cpu", stdin=f"{TEXT}\n{TEXT}\n".encode()),
        regard("predict", trained(), TEXT, "--json", "--device", "cpu"),
    ):
        assert told(given.err) == [line]
        assert "unknown" not in given.out


@pytest.mark.parametrize("more", [[], ["--show", "gradients"], ["--show", "heads"]])
def test_lens_names_them_too(more: list[str]) -> None:
    found = regard("lens", trained(), TEXT, *more, "--device", "cpu")
    assert found.code == 0, found.err
    assert len(told(found.err)) == 1
    assert "unknown" not in found.out


def test_where_all_is_known_nothing_is_said() -> None:
    assert told(regard("predict", trained(), "the cat sees the dog .", "--device", "cpu").err) == []
    assert told(regard("predict", writer(), "zyzzyva ☃", "--device", "cpu").err) == []  # of bytes


def test_a_stranger_cannot_write_to_the_terminal_by_a_word(tmp_path: Path) -> None:
    err = regard("predict", trained(), "the \x1b]0;x\x07 sees " + "a" * 999, "--device", "cpu").err
    (line,) = told(err)
    assert "\x1b" not in line
    assert len(line) < 300


def noted(tokenizer: Tokenizer, *texts: str) -> list[str]:
    with tokenizer.noting_unknown() as words:
        tokenizer.encode_batch(texts)
    return list(words)


def test_words_are_noted_as_they_were_typed_and_only_while_somebody_asks() -> None:
    word = train_tokenizer("word", ["the cat sees"], 20, lowercase=True)
    assert noted(word, "The DOG, sees", "the cat", "a dog Dog") == ["DOG", ",", "a", "dog", "Dog"]
    assert noted(word, "") == []
    with word.noting_unknown() as words:
        word.encode_placed(["the bird"])
    word.encode("an owl")
    assert list(words) == ["bird"]
    assert noted(train_tokenizer("byte", ["a"], 0), "é ☃") == []
    with patch("regard.text.tokenizer.NOTED", 2):
        assert noted(word, "p q r s") == ["p", "q"]


def test_every_kind_of_answers_says_what_it_reads_by() -> None:
    translator = open_run(trained(), "cpu")
    assert isinstance(translator, Translator)
    source = translator.tokenizers.source
    assert translator.tokenizer is Responder(translator, Fit(source, turns=1, room=9)).tokenizer is source

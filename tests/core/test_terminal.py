"""What a stranger's files say never steers the terminal: labels, words, names and generated text."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from regard.cli.shared import say, show, show_line
from regard.core.errors import LONGEST, UserError
from regard.core.terminal import printable, quoted
from regard.data.labels import Labels
from regard.data.sources.word_vectors import WordVectors
from regard.interop.huggingface.heads import read_labels
from regard.tasks.classification.predict import Answer, TextClassifier
from regard.tasks.word_vectors.predict import WordVectorModel, file_recipe
from tests.command import refused, regard
from tests.families.public_folder import change_tensors, export, small_gpt

TITLE = "\x1b]0;PWNED\x07"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (TITLE, r"\u001b]0;PWNED\u0007"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\x7f\x80\x9b2J", r"\u007f\u0080\u009b2J"),
        ("\u202eabc\u2066\u2028", r"\u202eabc\u2066\u2028"),
        ("\ud800", r"\ud800"),
        ("naïve 漢字 🙂 \\ é", "naïve 漢字 🙂 \\ é"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown
    assert json.loads(f'"{printable(text)}"'.replace("\\ ", "\\\\ ")) == text


def test_what_is_kept_is_kept() -> None:
    assert printable("a\n\tb\x1b", keep="\n\t") == "a\n\tb\\u001b"


def test_a_long_name_is_cut_in_the_middle() -> None:
    assert quoted("a" * 99 + "z", 80) == "a" * 38 + "..." + "a" * 37 + "z"
    assert quoted("a" * 80, 80) == "a" * 80


def test_a_sentence_is_one_line_and_not_a_long_one() -> None:
    assert str(UserError(f"x {TITLE}\nregard: all is well")) == r"x \u001b]0;PWNED\u0007\nregard: all is well"
    assert len(str(UserError("a" * 100_000))) <= LONGEST
    assert str(UserError(str(UserError(TITLE)))) == str(UserError(TITLE))


def test_generated_text_is_raw_in_a_pipe_and_escaped_on_a_terminal() -> None:
    for stream, expected in ((io.StringIO(), f"{TITLE}\n"), (Terminal(), "\\u001b]0;PWNED\\u0007\n")):
        with patch.object(sys, "stdout", stream):
            show(f"{TITLE}\n")
        assert stream.getvalue() == expected


def test_lines_with_names_are_escaped_wherever_they_go() -> None:
    with patch.object(sys, "stdout", io.StringIO()) as out, patch.object(sys, "stderr", io.StringIO()) as err:
        show_line(f"a\t{TITLE}")
        say(f"b {TITLE}")
    assert out.getvalue() == "a\t\\u001b]0;PWNED\\u0007\n"
    assert err.getvalue() == "b \\u001b]0;PWNED\\u0007\n"


@pytest.mark.parametrize("label", [TITLE, "a\nb\tc", "", " ", "\u202e"])
def test_labels_of_a_public_model_can_be_seen(label: str) -> None:
    with pytest.raises(UserError, match="in id2label, which is empty or holds"):
        read_labels({"id2label": {"0": label, "1": "ok"}}, ["classes"], "config.json")


def test_words_of_a_stranger_are_escaped_also_in_a_pipe(tmp_path: Path) -> None:
    words = WordVectors(("king", f"{TITLE}evil", "que\ten"), np.eye(3, 2, dtype=np.float32) + 0.1)
    told: list[str] = []
    WordVectorModel(words, file_recipe(tmp_path / "a.vec", []).data).predict(["king"], None, False, told.append)
    (line,) = told
    assert "\\u001b]0;PWNED\\u0007evil" in line
    assert line == printable(line, keep="\n")


def test_names_of_tensors_in_a_refusal(tmp_path: Path) -> None:
    folder = export(tmp_path / "gpt", small_gpt())
    change_tensors(folder, lambda found: found.update({f"{TITLE}x": found["transformer.ln_f.bias"].clone()}))
    assert "\x1b" not in refused(regard("predict", folder, "a text"), r"has the tensor \u001b]0;PWNED\u0007x")


def test_labels_of_a_run_are_escaped_also_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may have written them into labels.json."""
    monkeypatch.setattr(TextClassifier, "classify", lambda self, texts: [Answer("a\tb", {"a\tb": 1.0}) for _ in texts])
    labeller, told = TextClassifier(None, None, Labels(("a\tb", "c"), 1), None), list[str]()  # type: ignore[arg-type]
    labeller.predict(["a text"], None, False, told.append)
    assert told == ["a\\tb\t1.0000\n"]

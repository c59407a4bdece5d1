"""Cheaper decoding of encoder-decoders by keys of `decode`: the same texts, and one sentence where it cannot be."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch

from regard.core.errors import UserError
from regard.decode.candidates import NO_TOKEN
from regard.tasks.registry import open_run
from regard.tasks.speculation import spelled_alike
from regard.text.tokenizer import train_tokenizer
from tests.command import refused, regard
from tests.command import trained as translator
from tests.tasks.tiny_reports import rows, train, trained
from tests.tasks.tiny_text import trained as language_model

GREEDY, DRAWN = ["decode.search=greedy"], ["decode.search=sample", "decode.samples=2", "decode.seed=3"]
REPORTS = [f"last: {text}" for text, _ in rows(6, 3)] + ["mood: the cat sees", ""]
ENGLISH = ["the cat sees the dog .", "the bird", "the horse likes the cat .", ""]
_kept = TemporaryDirectory(prefix="regard-tests-")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@cache
def windowed() -> Path:
    train(Path(_kept.name) / "windowed", "model.visibility=window(2)")
    return Path(_kept.name) / "windowed"


def texts(run: Path, *settings: str) -> list[list[tuple[str, list[int]]]]:
    found: Any = open_run(run, "cpu", list(settings))
    given, write = (ENGLISH, found.translate) if run == translator() else (REPORTS, found.write)
    return [[(one.text, one.ids) for one in outputs] for outputs in write(given)]


@pytest.mark.parametrize("run", [trained, translator])
@pytest.mark.parametrize("search", [GREEDY, DRAWN], ids=["greedy", "drawn"])
def test_proposals_change_no_text(run: Any, search: list[str]) -> None:
    plain = texts(run(), *search)
    assert [len(outputs) for outputs in plain[:-1]] == [1 if search == GREEDY else 2] * (len(plain) - 1)
    assert texts(run(), *search, "decode.prompt_lookup=4") == plain
    assert texts(run(), *search, f"decode.draft={run()}", "decode.draft_tokens=3") == plain


def test_a_summary_is_found_in_its_source() -> None:
    """The last words of a report are its summary, so what follows their first word is proposed rightly."""
    found: Any = open_run(trained(), "cpu", [*GREEDY, "decode.prompt_lookup=4"])
    found.write(REPORTS[:6])
    used = found.proposes.speculation
    assert used.read < used.written


def test_smaller_caches() -> None:
    for search in (GREEDY, ["decode.search=beam", "decode.beam=2"]):
        same = sum(a == b for a, b in zip(texts(trained(), *search, "decode.cache=int8"), texts(trained(), *search)))
        assert same >= 6  # of 8: rounding may turn a close choice
    assert texts(windowed(), *GREEDY, "decode.cache=window") == texts(windowed(), *GREEDY)


def test_tokens_of_two_vocabularies_by_their_spelling() -> None:
    source, target = (train_tokenizer("word", [text] * 3, 20) for text in ("the cat 1789", "le chat 1789 the"))
    found = spelled_alike(source, target)
    assert found[:4] == [0, 1, 2, 3]
    assert found[source.encode("1789")[0]] == target.encode("1789")[0]
    assert found[source.encode("cat")[0]] == NO_TOKEN


@pytest.mark.parametrize(
    ("run", "settings", "told"),
    [
        (trained, ["decode.cache=window"], "for models that see a window of the last tokens"),
        (trained, ["decode.share_prefix=true"], "an output is written from a source that is read whole"),
        (trained, ["decode.search=beam", "decode.prompt_lookup=2"], "which beam search does not use"),
        (trained, ["decode.draft=no-such-run"], "no-such-run"),
        (
            translator,
            ["decode.search=greedy", "decode.stop=x"],
            "for language models; a translation ends by itself",
        ),
    ],
)
def test_settings_that_cannot_be(run: Any, settings: list[str], told: str) -> None:
    refused(regard("predict", run(), "last: the cat", *settings), told)


def test_a_draft_must_read_and_write_as_the_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no encoder-decoder"):
        texts(trained(), *GREEDY, f"decode.draft={language_model()}")
    with pytest.raises(UserError, match="has another vocabulary than this model"):
        texts(trained(), *GREEDY, f"decode.draft={translator()}")
    train(
        tmp_path / "short",
        "data.train=" + str(trained().parent / "data.jsonl"),
        "model.position=learned",
        "model.maximum_length=64",
    )
    with pytest.raises(UserError, match=r"has learned 64 positions, and this model reads up to 512 tokens"):
        texts(windowed(), *GREEDY, f"decode.draft={tmp_path / 'short'}")


def test_models_without_keys_refuse_them() -> None:
    sizes = ["model.width=16", "model.heads=2", "model.layers=1", "model.feedforward=32"]
    found = regard("explain", "summarize", *sizes, "model.mixer=favor", "model.position=sinusoidal", "decode.cache=int8")
    assert "no keys of what is written are kept, so decode.cache is refused" in found.out, found


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ([], "keys and values of all tokens and of the source, 256 B a token in fp32"),
        (
            ["decode.cache=int8"],
            "of the text and of the source in 8 bits and a scale for each head, 96.0 B a token",
        ),
        (["decode.cache=window", "model.visibility=window(4)"], "1.28 kB whatever the length, and of the source, 256 B a token"),
        (
            ["decode.search=greedy", "decode.prompt_lookup=4"],
            "4 tokens at a time proposed from the text itself and its source",
        ),
    ],
)
def test_explain_says_what_decoding_keeps(settings: list[str], told: str) -> None:
    sizes = ["model.width=16", "model.heads=2", "model.layers=2", "model.feedforward=32", "decode.search=greedy"]
    found = regard("explain", "summarize", *sizes, *settings)
    assert found.code == 0, found
    assert told in found.out, found.out[-400:]

"""Keys of `decode` that make decoding cheaper: the same texts and streams, and one sentence where they cannot serve."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from regard.core.errors import UserError
from regard.decode.config import DecodeConfig
from regard.tasks.language_model.predict import TextGenerator
from regard.tasks.registry import open_run
from tests.command import refused, regard
from tests.command import trained as translator
from tests.tasks.tiny_text import stories, train, trained, write_stories

PROMPTS = ["the cat", "the cat sees the", "a dog hears", "the cat sees the dog.\nthe bird likes", ""]
SEARCHES = (["decode.search=greedy"], ["decode.search=sample", "decode.samples=2", "decode.seed=3"])
_kept = TemporaryDirectory(prefix="regard-tests-")


@pytest.fixture(autouse=True)
def one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


@cache
def windowed() -> Path:
    """A run that sees a window of 4 tokens before its own."""
    data = write_stories(Path(_kept.name) / "stories.jsonl", stories(80))
    train(Path(_kept.name) / "run", data, "model.visibility=window(4)", "model.position=rotary")
    return Path(_kept.name) / "run"


def opened(run: Path, *settings: str) -> TextGenerator:
    found = open_run(run, "cpu", ["decode.maximum_length=8", "decode.sliding_window=true", "decode.top_p=1", *settings])
    assert isinstance(found, TextGenerator)
    return found


def texts(run: Path, *settings: str) -> list[list[tuple[str, list[int]]]]:
    return [[(one.text, one.ids) for one in found] for found in opened(run, *settings).write(PROMPTS)]


@pytest.mark.parametrize("search", SEARCHES, ids=["greedy", "drawn"])
@pytest.mark.parametrize("length", [8, 24])
def test_the_texts_are_those_of_plain_decoding(search: list[str], length: int) -> None:
    """Also where a window has ended and the text goes on from its last half."""
    more = [*search, f"decode.maximum_length={length}"]
    plain = texts(trained(), *more)
    for extra in (
        ["decode.prompt_lookup=4"],
        [f"decode.draft={trained()}", "decode.draft_tokens=3"],
        ["decode.share_prefix=true"],
    ):
        assert texts(trained(), *more, *extra) == plain, extra


@pytest.mark.parametrize("search", SEARCHES, ids=["greedy", "drawn"])
def test_a_window_is_all_that_is_kept(search: list[str]) -> None:
    assert texts(windowed(), *search, "decode.cache=window") == texts(windowed(), *search)
    assert texts(windowed(), *search, "decode.prompt_lookup=3") == texts(windowed(), *search)


def test_8_bits_write_texts_for_every_search() -> None:
    for search in (*SEARCHES, ["decode.search=beam", "decode.sliding_window=false", "decode.maximum_length=6"]):
        found, plain = texts(trained(), *search, "decode.cache=int8"), texts(trained(), *search)
        assert sum(one == other for one, other in zip(found, plain)) >= 3  # of 5: rounding may turn a close choice


def test_streams_are_heard_as_elsewhere() -> None:
    heard = {}
    for extra in ("decode.prompt_lookup=0", "decode.prompt_lookup=4"):
        pieces: list[str] = []
        opened(trained(), "decode.search=greedy", extra).stream("the cat", 0, pieces.append)
        heard[extra] = pieces
    assert heard["decode.prompt_lookup=4"] == heard["decode.prompt_lookup=0"]
    assert len(heard["decode.prompt_lookup=4"]) > 1


def test_the_command_takes_them() -> None:
    typed = ["predict", trained(), "the cat", "--json", "decode.search=greedy"]
    plain, looked = regard(*typed), regard(*typed, "decode.prompt_lookup=4")
    assert (plain.code, looked.code) == (0, 0), looked
    assert json.loads(looked.out)["outputs"][0]["ids"] == json.loads(plain.out)["outputs"][0]["ids"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["decode.cache=window"], "for models that see a window of the last tokens"),
        (["decode.cache=int4"], "int4"),
        (["decode.search=beam", "decode.sliding_window=false", "decode.prompt_lookup=3"], "which beam search does not use"),
        (["decode.search=beam", "decode.sliding_window=false", "decode.draft=x"], "which beam search does not use"),
        (["decode.prompt_lookup=-1"], "decode.prompt_lookup is -1"),
        (["decode.prompt_lookup=65"], "decode.prompt_lookup is 65"),
        (["decode.draft=x", "decode.draft_tokens=0"], "decode.draft_tokens is 0"),
        (["decode.draft_tokens=5"], "which is for decode.draft=RUN"),
        (["decode.prompt_lookup=3", "decode.draft=x"], "both propose tokens"),
        (["decode.prompt_lookup=3", "decode.cache=int8"], "cannot take back what was only proposed"),
        (["decode.draft=no-such-run"], "no-such-run"),
    ],
)
def test_settings_that_cannot_be(settings: list[str], told: str) -> None:
    refused(regard("predict", trained(), "the cat", *settings), told)


def test_a_draft_must_have_the_same_vocabulary_and_write(tmp_path: Path) -> None:
    train(tmp_path / "other", write_stories(tmp_path / "new.jsonl", stories(60, seed=9)), "text.size=280")
    with pytest.raises(UserError, match="has another vocabulary than this model"):
        opened(trained(), f"decode.draft={tmp_path / 'other'}")
    with pytest.raises(UserError, match="is no language model"):
        opened(trained(), f"decode.draft={translator()}")


def test_other_tasks_refuse_them() -> None:
    told = "for language models; a translation is written from a source that is read whole"
    refused(regard("predict", translator(), "the cat", "decode.share_prefix=true"), told)
    two = ["decode.search=greedy", "decode.stop=x", "decode.sliding_window=true"]
    refused(regard("predict", translator(), "the cat", *two), "decode.stop and decode.sliding_window are for language models")


def test_a_beam_holds_several_texts() -> None:
    with pytest.raises(UserError, match=r"decode\.cache=window keeps one text a sentence"):
        DecodeConfig(cache="window")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ([], "decoding    keys and values of all tokens, 256 B a token in fp32"),
        (["decode.cache=int8"], "keys and values in 8 bits and a scale for each head, 96.0 B a token in place of 256 B"),
        (["decode.cache=window"], "decode.cache=window is refused: this model sees more than a window"),
        (["decode.cache=window", "model.visibility=window(4)"], "of the last 5 tokens, 1.28 kB whatever the length"),
        (["decode.prompt_lookup=4"], "up to 4 tokens at a time proposed from the text itself; steps are not captured"),
        (["decode.draft=runs/small"], "up to 4 tokens at a time proposed by runs/small"),
        (["decode.share_prefix=true"], "what all prompts of a batch begin with is encoded once"),
        (["model.mixer=favor", "model.position=sinusoidal"], "a state of one size, whatever the length"),
        (["model.mixer=favor", "model.position=sinusoidal", "decode.cache=int8"], "so decode.cache is refused"),
    ],
)
def test_explain_says_what_decoding_keeps(settings: list[str], told: str) -> None:
    sizes = ["model.width=16", "model.heads=2", "model.layers=2", "model.feedforward=32", "text.size=290"]
    found = regard("explain", "gpt", *sizes, *settings)
    assert found.code == 0, found
    assert told in found.out, found.out[-400:]


@pytest.mark.parametrize("key", ["draft", "draft_tokens", "prompt_lookup", "share_prefix", "cache"])
def test_every_key_is_explained(key: str) -> None:
    found = regard("explain", f"decode.{key}")
    assert (found.code, f"decode.{key}" in found.out) == (0, True)
    assert len(found.out.splitlines()) > 4

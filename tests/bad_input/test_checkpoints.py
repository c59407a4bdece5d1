"""Public folders and runs that do not fit what is asked of them: one sentence each, before anything is trained or written."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from regard.interop.sentencepiece import read_pair
from tests.command import refused, regard, tiny
from tests.command import trained as translator
from tests.interop.sentencepiece_files import marian_folder
from tests.interop.test_marian_run import with_weights
from tests.tasks.text_to_text.test_public import folder_of
from tests.tasks.tiny_reports import TINY, data
from tests.tasks.tiny_text import trained as language_model

_kept = TemporaryDirectory(prefix="regard-tests-")
PLAIN = [setting for setting in TINY if not setting.startswith(("model.", "text.", "decode."))]


@cache
def marian() -> Path:
    folder = marian_folder(Path(_kept.name) / "marian")
    with_weights(folder, read_pair(folder))
    return folder


@cache
def t5() -> Path:
    folder_of("t5", Path(_kept.name) / "t5")
    return Path(_kept.name) / "t5"


Start = Callable[[], Path]
STARTS: list[tuple[str, Start, list[str], tuple[str, ...]]] = [
    ("translate", marian, ["text.joint=true"], ("text.joint=true cannot be set with task.init_from", "which has false")),
    ("translate", marian, ["text.size=50"], ("text.size=50 cannot be set with task.init_from",)),
    ("translate", marian, ["model.width=48"], ("model.width=48 cannot be set with task.init_from",)),
    ("translate", marian, ["model.family=bart"], ("model.family",)),
    ("translate", marian, ["decode.end=<end>"], ("decode.end='<end>' is no token of this vocabulary",)),
    ("translate", marian, ["decode.first=fr_XX"], ("decode.first='fr_XX' is no token of this vocabulary",)),
    ("translate", language_model, [], ("gpt",)),
    ("translate", t5, ["text.tokenizer=bpe"], ("text.tokenizer=bpe cannot be set with task.init_from",)),
    ("translate", t5, ["model.position=learned"], ("model.position=learned cannot be set with task.init_from",)),
    ("translate", t5, ["task.freeze=true", "train.lora=2"], ("task.freeze=true",)),
    ("summarize", marian, [], ("has two tokenizers, and task.name=text_to_text reads and writes with one",)),
    ("summarize", language_model, [], ("gpt",)),
    ("summarize", t5, ["decode.start=<begin>"], ("decode.start='<begin>' is no token of this vocabulary",)),
    ("gpt", t5, [], ("t5",)),
    ("bert", t5, [], ("t5",)),
]


@pytest.mark.parametrize(
    ("recipe", "start", "settings", "told"), STARTS, ids=[f"{recipe}-{n}" for n, (recipe, *_) in enumerate(STARTS)]
)
def test_starts_that_do_not_fit(recipe: str, start: Start, settings: list[str], told: tuple[str, ...], tmp_path: Path) -> None:
    texts = [f"data.train={data()}", *PLAIN] if recipe == "summarize" else []
    pairs = [setting for setting in _pairs() if recipe == "translate"]
    typed = ["train", recipe, f"task.init_from={start()}", *texts, *pairs, *settings]
    refused(regard(*typed, "--out", tmp_path / "run", "--device", "cpu"), *told)
    assert not (tmp_path / "run").exists()


def _pairs() -> list[str]:
    folder = Path(_kept.name)
    (folder / "pairs.tsv").write_text("the cat\tle chat\nthe dog\tle\n" * 9, "utf-8")
    return [f"data.train={folder / 'pairs.tsv'}", "data.valid=", "data.test=", "data.valid_fraction=0.3"]


def changed(folder: Path, name: str, change: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / name
    content = json.loads(path.read_text("utf-8"))
    change(content)
    path.write_text(json.dumps(content), "utf-8")


SPOILED: list[tuple[str, Callable[[Path], Any], tuple[str, ...]]] = [
    ("no source.spm", lambda f: (f / "source.spm").unlink(), ("source.spm",)),
    ("a piece twice", lambda f: changed(f, "vocab.json", lambda v: v.update({"</s>": v["<unk>"]})), ("vocab.json",)),
    ("no end", lambda f: changed(f, "vocab.json", lambda v: v.update({"end": v.pop("</s>")})), ("has no piece </s>",)),
    ("another vocab.json", lambda f: changed(f, "vocab.json", _renamed), ("do not belong together",)),
    ("more pieces", lambda f: changed(f, "vocab.json", lambda v: v.update({"new": len(v)})), ("do not belong together",)),
    ("another key", lambda f: changed(f, "config.json", lambda c: c.update(rope_theta=1e4)), ("rope_theta", "may change the")),
    ("an activation", lambda f: changed(f, "config.json", lambda c: c.update(activation_function="snake")), ("snake",)),
    ("no such start", lambda f: changed(f, "generation_config.json", lambda c: c.update(decoder_start_token_id=999)), ("999",)),
    ("other layers", lambda f: changed(f, "config.json", lambda c: c.update(decoder_layers=3)), ("has no tensor",)),
    ("fewer layers", lambda f: changed(f, "config.json", lambda c: c.update(decoder_layers=1)), ("which this version",)),
]


def _renamed(ids: dict[str, int]) -> None:
    """Give every piece that is no special token another text."""
    for piece in [piece for piece in ids if not piece.startswith("<")]:
        ids[f"{piece}x"] = ids.pop(piece)


@pytest.mark.parametrize(("what", "spoil", "told"), SPOILED, ids=[row[0] for row in SPOILED])
def test_folders_that_are_not_whole(what: str, spoil: Callable[[Path], Any], told: tuple[str, ...], tmp_path: Path) -> None:
    folder = marian_folder(tmp_path / "marian")
    with_weights(folder, read_pair(folder))
    spoil(folder)
    refused(regard("import", folder, tmp_path / "run"), *told)
    assert not (tmp_path / "run").exists()


def test_runs_that_no_format_holds(tmp_path: Path) -> None:
    refused(regard("export", translator(), tmp_path / "out", "--to", "hf"), "which --to hf cannot write")
    sizes = ["model.family=marian", "text.joint=false", "text.tokenizer=unigram", "text.size=60", "model.tie=output"]
    steps = ["train.steps=1", "train.warmup=0", "train.validate_every=1", "train.checkpoint_every=1"]
    assert regard("train", tiny(), *sizes, *steps, "--out", tmp_path / "own", "--device", "cpu").code == 0
    refused(regard("export", tmp_path / "own", tmp_path / "out", "--to", "hf"), "source.spm", "without </s>")
    assert not (tmp_path / "out").exists()

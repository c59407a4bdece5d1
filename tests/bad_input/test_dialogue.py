"""Dialogues and settings that cannot be trained on, through the command: one sentence each, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import contents, refused, regard

GOOD = "hi __eou__ hello __eou__ bye __eou__ goodbye __eou__\n"


@pytest.mark.parametrize("recipe", ["chat-multi", "chat-retrieval"])
@pytest.mark.parametrize(
    ("name", "content", "settings", "told"),
    [
        ("train.jsonl", '{"turns": ["hi", 3]}\n', (), ["data.train", "line 1, turn 2", "a text expected"]),
        ("train.jsonl", '{"lines": ["hi", "ho"]}\n', (), ["no list of turns", '{"turns": ["hi", "hello"]}']),
        ("train.txt", "hi __eou__ __eou__ hello\n", (), ["train.txt, line 1: turn 2 is empty"]),
        ("train.txt", "alone\n", (), ["it has no reply", "__eou__"]),
        ("train.txt", "", (), ["is empty"]),
        ("train.txt", GOOD, ("data.turns=0",), ["data.turns=0", "at least 1"]),
        ("train.txt", GOOD, ("data.replies=third",), ["data.replies=third is not a choice"]),
        ("train.txt", GOOD, ("data.maximum_tokens=2",), ["data.maximum_tokens=2", "at least 8"]),
        ("train.txt", GOOD, ("data.valid=",), ["data.valid is empty", "__eou__"]),
        ("train.txt", GOOD, ("data.valid=builtin:smalltalk/tset",), ["data.valid", "'tset'"]),
        ("train.txt", GOOD, ("model.family=gpt",), ["model.family=gpt is not known"]),
    ],
)
def test_it_is_refused(tmp_path: Path, recipe: str, name: str, content: str, settings: tuple[str, ...], told: list[str]) -> None:
    (tmp_path / name).write_text(content)
    (tmp_path / "valid.txt").write_text(GOOD)
    before = contents(tmp_path)
    where = [f"data.train={tmp_path / name}", f"data.valid={tmp_path / 'valid.txt'}"]
    refused(regard("train", recipe, *where, *settings, "--out", tmp_path / "run", "--device", "cpu"), *told)
    assert contents(tmp_path) == before


def test_a_retriever_must_have_room_for_what_it_reads(tmp_path: Path) -> None:
    settings = ["model.position=learned", "model.maximum_length=64"]
    refused(regard("train", "chat-retrieval", *settings, "--out", tmp_path / "run"), "data.maximum_tokens=128", "set it to 64")


def test_no_reply_is_found_among_none(tmp_path: Path) -> None:
    refused(regard("train", "chat-retrieval", "data.nearest=0", "--out", tmp_path / "run"), "data.nearest=0", "at least 1")

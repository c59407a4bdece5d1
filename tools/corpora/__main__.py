"""Write every built-in corpus to src/regard/data/builtin/rows: NAME-SPLIT.jsonl.gz, and sha256.json of the uncompressed text."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from regard.data.builtin import ROWS, SPLITS
from tools.corpora.dates import dates
from tools.corpora.dispatches import dispatches
from tools.corpora.english_french import english_french
from tools.corpora.inference import inferences
from tools.corpora.remarks import remarks
from tools.corpora.reports import reports
from tools.corpora.reviews import reviews
from tools.corpora.similarity import likenesses
from tools.corpora.smalltalk import smalltalk
from tools.corpora.stories import stories

CORPORA: dict[str, Callable[[str], Iterable[Sequence[Any]]]] = {
    "dates": dates,
    "dispatches": lambda split: ((" ".join(row.words), " ".join(row.tags)) for row in dispatches(split)),
    "english-french": english_french,
    "inference": inferences,
    "remarks": remarks,
    "reports": lambda split: ((row.text, row.summary) for row in reports(split)),
    "reviews": reviews,
    "similarity": likenesses,
    "smalltalk": smalltalk,
    "stories": lambda split: ((row.question, row.context, row.answer, row.start) for row in stories(split)),
}


def json_lines(name: str, split: str) -> bytes:
    """Return one split of a corpus as UTF-8 JSON lines, an array of fields a row."""
    return "".join(json.dumps(list(row), ensure_ascii=False) + "\n" for row in CORPORA[name](split)).encode()


def write_all(folder: Path) -> None:
    digests = {}
    for name in CORPORA:
        for split in SPLITS:
            text = json_lines(name, split)
            # Without a time and a name, the same text is the same file. The digest is of the text: zlibs compress differently.
            (folder / f"{name}-{split}.jsonl.gz").write_bytes(gzip.compress(text, 9, mtime=0))
            digests[f"{name}-{split}"] = hashlib.sha256(text).hexdigest()
    (folder / "sha256.json").write_text(json.dumps(digests, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    ROWS.mkdir(exist_ok=True)
    write_all(ROWS)
    print(f"{len(CORPORA)} corpora, {sum(path.stat().st_size for path in ROWS.iterdir()):,} bytes")

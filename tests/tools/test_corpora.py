"""The rows that the package ships are those that the generators of tools/corpora print."""

from __future__ import annotations

import gzip
import hashlib
import json

import pytest

from regard.data.builtin import ROWS, SPLITS
from tools.corpora.__main__ import CORPORA, json_lines

DIGESTS = json.loads((ROWS / "sha256.json").read_text("utf-8"))


@pytest.mark.parametrize("name", CORPORA)
def test_the_shipped_rows_are_the_generated_ones(name: str) -> None:
    for split in SPLITS:
        generated, shipped = json_lines(name, split), gzip.decompress((ROWS / f"{name}-{split}.jsonl.gz").read_bytes())
        assert hashlib.sha256(generated).hexdigest() == DIGESTS[f"{name}-{split}"], "run python -m tools.corpora"
        assert shipped == generated


def test_nothing_else_is_shipped_and_it_is_small() -> None:
    files = {path.name for path in ROWS.iterdir()}
    assert files == {f"{name}-{split}.jsonl.gz" for name in CORPORA for split in SPLITS} | {"sha256.json"}
    assert set(DIGESTS) == {file.removesuffix(".jsonl.gz") for file in files - {"sha256.json"}}
    assert sum((ROWS / file).stat().st_size for file in files) < 3_000_000


def test_the_files_name_no_time_and_no_place() -> None:
    for path in ROWS.glob("*.gz"):
        header = path.read_bytes()[:10]
        assert header[3] == 0, path  # no name, no comment
        assert header[4:8] == bytes(4), path  # no time

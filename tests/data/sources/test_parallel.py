"""Every format against Python's own writers, every bad input against the sentence it deserves."""

from __future__ import annotations

import builtins
import csv
import gzip
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.sources import Pair, records
from regard.data.sources.parallel import read_pairs
from tools.corpora.english_french import english_french

PAIRS = [Pair("Hello, world", "Hallo, Welt"), Pair('a "b"', "ein «b»"), Pair("naïve\u2028line", "l'été\x85\x0c 3")]
Write = Callable[[str, str | bytes], str]

# Any text that can stand on one line, beginning and ending with something that is not white space.
line = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\t\0\ufeff"), max_size=20).map(
    lambda text: f"a{text}b"
)
pair_lists = st.lists(st.builds(Pair, line, line), min_size=1, max_size=5)
writes = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: str | bytes) -> str:
        content = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return str(tmp_path / name)

    return write


def refused(where: tuple[str, ...], *said: str, columns: tuple[str, str] | None = None) -> None:
    """The sentence is a UserError and has all of what was said in it."""
    with pytest.raises(UserError) as caught:
        read_pairs(where, columns)
    for part in said:
        assert part in str(caught.value)


# formats ----------------------------------------------------------------------------------------------------------
@given(pairs=pair_lists, end=st.sampled_from(["\n", "\r\n"]), zipped=st.sampled_from(["", ".gz"]))
@writes
def test_aligned_files(write: Write, pairs: list[Pair], end: str, zipped: str) -> None:
    where = (
        write("a.en" + zipped, end.join(pair.source for pair in pairs)),
        write("a.de" + zipped, "\ufeff" + "".join(pair.target + end for pair in pairs)),
    )
    assert read_pairs(where) == pairs


@given(pairs=pair_lists, end=st.sampled_from(["\n", "\r\n"]), zipped=st.sampled_from(["", ".gz"]))
@writes
def test_tsv(write: Write, pairs: list[Pair], end: str, zipped: str) -> None:
    rows = end.join(f"{pair.source}\tx\t{pair.target}" for pair in pairs)
    assert read_pairs((write("a.tsv" + zipped, rows),), ("0", "2")) == pairs
    assert read_pairs((write("a.tsv" + zipped, f"\ufeffen\tid\tde{end}{rows}{end}"),), ("en", "de")) == pairs


@given(pairs=pair_lists, breaks=st.booleans())
@writes
def test_csv_as_python_writes_it(tmp_path: Path, pairs: list[Pair], breaks: bool) -> None:
    pairs = [Pair(f'{pair.source}\n\n"{pair.target}", x', pair.target) if breaks else pair for pair in pairs]
    path = tmp_path / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("id", *Pair._fields), *((n, *p) for n, p in enumerate(pairs))])
    assert read_pairs((str(path),), ("source", "target")) == pairs
    assert read_pairs((str(path),), ("2", "1"))[1:] == [Pair(pair.target, pair.source) for pair in pairs]


@given(pairs=pair_lists, ascii_only=st.booleans(), name=st.sampled_from(["a.jsonl", "a.ndjson.gz"]))
@writes
def test_json_lines_as_python_writes_them(write: Write, pairs: list[Pair], ascii_only: bool, name: str) -> None:
    rows = [json.dumps({"n": 1, **pair._asdict()}, ensure_ascii=ascii_only) for pair in pairs]
    assert read_pairs((write(name, "\n".join(rows)),)) == pairs
    inner = [json.dumps({"translation": {"en": pair.source, "de": pair.target}}) for pair in pairs]
    assert read_pairs((write(name, "\n".join(inner)),), ("en", "de")) == pairs


def test_two_columns_need_no_choice(write: Write) -> None:
    """A first row that names two languages is a header; any other is a pair."""
    assert read_pairs((write("a.tsv", "one\teins\nx\ty"),)) == [Pair("one", "eins"), Pair("x", "y")]
    assert read_pairs((write("a.CSV", 'en,de\n"x, z",y'),)) == [Pair("x, z", "y")]


def test_limit_reads_no_further(write: Write) -> None:
    where = (write("a.tsv", "a\tb\nc\td\nbroken"),)
    assert read_pairs(where, limit=2) == [Pair("a", "b"), Pair("c", "d")]
    refused(where, "line 3")
    with pytest.raises(UserError, match="limit of 0"):
        read_pairs(where, limit=0)


def test_only_newlines_end_lines_and_empty_lines_at_the_end_do_not_count(write: Write) -> None:
    source, target = ("\n".join(side) for side in zip(*PAIRS))
    assert read_pairs((write("a.x", source + "\n\n \n"), write("a.y", target))) == PAIRS


def test_builtin() -> None:
    assert read_pairs(("builtin:english-french/valid",), ("no", "matter"), limit=3) == english_french("valid")[:3]
    refused(("builtin:english-french",), "builtin:english-french/train")
    refused(("builtin:english-french/tests",), "did you mean 'test'?")
    refused(("builtin:englishfrench/train",), "did you mean 'english-french'?")


# files that cannot be read ----------------------------------------------------------------------------------------
def test_missing_file_names_the_nearest(write: Write, tmp_path: Path) -> None:
    write("train.en", "x")
    refused((str(tmp_path / "trian.en"), str(tmp_path / "train.en")), "trian.en does not exist", "mean 'train.en'?")
    refused((str(tmp_path / "no" / "a.tsv"),), "does not exist", f"the folder {tmp_path / 'no'}")


def test_folder_and_unreadable_file(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused((str(tmp_path),), f"{tmp_path} is a folder", "Name one of the files")
    path = write("a.tsv", "a\tb")

    def deny(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("regard.core.files.os.open", deny)
    refused((path,), path, "Permission denied")


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl", "a.tsv.gz"])
@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", " \r\n"])
def test_empty_file(write: Write, name: str, content: str) -> None:
    path = write(name, content)
    refused((path,), f"{path} is empty", "Give a file")


def test_header_alone(write: Write) -> None:
    path = write("a.tsv", "en\tde\n")
    refused((path,), path, "no pairs", columns=("en", "de"))


def test_not_utf8(write: Write) -> None:
    path = write("a.tsv", b"a\tb\nc\tcaf\xe9\n")
    refused((path,), f"{path}, line 2, byte 6: 0xE9 is not UTF-8", "iconv")
    path = write("b.tsv", "a\tb\n".encode("utf-16"))
    refused((path,), f"{path}, line 1", "UTF-16", "iconv")
    path = write("c.tsv", b"a\tb\nc\td\0\n")
    refused((path,), f"{path}, line 2: a NUL byte", "UTF-8")


def test_broken_gzip(write: Write, tmp_path: Path) -> None:
    whole = gzip.compress("".join(f"{n}\t{n * n}\n" for n in range(5000)).encode())
    flipped = whole[:2000] + bytes(byte ^ 0x55 for byte in whole[2000:2100]) + whole[2100:]
    for broken in (whole[: len(whole) // 2], flipped, b"a\tb\n", whole[:5]):
        path = tmp_path / "a.tsv.gz"
        path.write_bytes(broken)
        refused((str(path),), f"{path} is not a whole gzip file", "again")


# pairs that are none ----------------------------------------------------------------------------------------------
def test_wrong_number_of_files(write: Write) -> None:
    text, table = write("a.en", "x"), write("a.tsv", "x\ty")
    refused((text,), text, "pairs need two", ".tsv")
    refused((text, text, text), "one table", "two aligned text files", "a.en', '")
    refused((), "two aligned text files")
    refused((text, table), f"{table} is a table", "Give one table alone")


def test_misaligned_files(write: Write) -> None:
    a, b = write("a.en", "1\n2\n3\n"), write("a.de", "1\n2\n")
    refused((a, b), f"{a} has 3 lines and {b} has 2", "up to line 3")
    refused((b, a), f"{b} has 2 lines and {a} has 3")


@pytest.mark.parametrize("blank", ["", "  ", "\u3000"])
def test_empty_line_on_one_side(write: Write, blank: str) -> None:
    a, b = write("a.en", "1\n2\n3\n"), write("a.de", f"1\n{blank}\n3\n")
    refused((a, b), f"{b}, line 2: this line is empty", "take it out on both sides")
    refused((b, a), f"{b}, line 2")
    path = write("a.tsv", f"1\t1\n2\t{blank}\n")
    refused((path,), f"{path}, line 2: column '1' is empty", "Fill it in")
    path = write("a.jsonl", json.dumps({"source": blank, "target": "x"}))
    refused((path,), f"{path}, line 1: column 'source' is empty")


@pytest.mark.parametrize(("name", "between"), [("a.tsv", "\t"), ("a.csv", ",")])
def test_wrong_columns(write: Write, name: str, between: str) -> None:
    def table(*rows: str) -> str:
        return write(name, "\n".join(rows).replace("|", between))

    path = table("a|b|c", "d|e|f")
    refused((path,), f"{path}, line 1: columns found: 3, expected: 2", "data.columns=0,1", "data.columns=en,de")
    refused((path,), f"{path}, line 2: there is no column 'bb'", "did you mean 'b'?", "data.columns", columns=("a", "bb"))
    refused((path,), f"{path}, line 1: there is no column '7' (known: 0, 1, 2)", columns=("0", "7"))
    path = table("a|b", "c|d", "e|f|g", "h|i")
    refused((path,), f"{path}, line 3: columns found: 3, expected: 2 as in line 1", "Mend the line")
    path = table("a|b", "c|d", "", "h|i")
    refused((path,), f"{path}, line 3: columns found: ", "expected: 2")
    path = table("en|de|en", "a|b|c")
    refused((path,), f"{path}, line 1: two columns are named 'en'", "data.columns=0,1", columns=("en", "de"))


def test_csv_quotes(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a.csv", 'a,b\n"c,d\ne,f\n')
    refused((path,), f"{path}, line 2: this is not CSV", "Close every quote", ".tsv")
    path = write("b.csv", 'a,b\nc,d\n"x"y,z\n')
    refused((path,), f"{path}, line 3: this is not CSV")
    monkeypatch.setattr(records, "LONGEST", 1_000)
    path = write("c.csv", f"a,b\nc,{'x' * 2_000}\n")
    refused((path,), f"{path}, line 2: this is not CSV (field larger")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"source": "a", "target": }', ["this is not JSON", "one whole object on each line"]),
        ("[" * 100_000, ["this is not JSON"]),
        ("", ["this is not JSON"]),
        ('["a", "b"]', ["list found, object expected", '{"source": "...", "target": "..."}']),
        ('{"source": "a", "targett": "b"}', ["no column 'target'", "did you mean 'targett'?", "data.columns"]),
        ('{"en": "a", "de": "b"}', ["no column 'source' (known: de, en)"]),
        ('{"translation": {"en": "a", "de": "b"}}', ["no column 'source' (known: de, en)"]),
        ('{"source": "a", "target": 3}', ["column 'target' holds int", "text is needed"]),
        ('{"source": null, "target": "b"}', ["column 'source' holds NoneType"]),
        ('{"source": "a\\ud83d", "target": "b"}', ["a text holds half a character"]),
    ],
)
def test_bad_json(write: Write, row: str, said: list[str]) -> None:
    path = write("a.jsonl", f'{{"source": "a", "target": "b"}}\n{row}\n{{"source": "a", "target": "b"}}\n')
    refused((path,), f"{path}, line 2: ", *said)


# the hub ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def folder(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder of JSON lines as `datasets` opens it."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "corpus").mkdir()
    for split in ("train", "test"):
        rows = [{"translation": {"en": f"{split} {p.source}", "de": p.target}} for p in PAIRS]
        write(f"corpus/{split}.jsonl", "\n".join(map(json.dumps, rows)))
    return str(tmp_path / "corpus")


def test_hub_opens_a_folder(folder: str) -> None:
    expected = [Pair(f"train {pair.source}", pair.target) for pair in PAIRS]
    assert read_pairs((f"hf:{folder}",), ("en", "de")) == expected
    assert read_pairs((f"hf:{folder}:test",), ("en", "de"), limit=1)[0].source == f"test {PAIRS[0].source}"
    refused((f"hf:{folder}:train",), "row 0: there is no column 'fr' (known: de, en)", columns=("en", "fr"))
    refused((f"hf:{folder}:valid",), f"hf:{folder}:valid could not be opened", "hf:NAME@CONFIG:SPLIT", columns=("en", "de"))


@pytest.mark.parametrize(
    ("where", "name", "config", "split"),
    [
        ("hf:wmt14", "wmt14", None, "train"),
        ("hf:owner/name", "owner/name", None, "train"),
        ("hf:wmt14@de-en", "wmt14", "de-en", "train"),
        ("hf:owner/name@de-en:test", "owner/name", "de-en", "test"),
        ("hf:owner/name:train[:100]", "owner/name", None, "train[:100]"),
    ],
)
def test_hub_names(where: str, name: str, config: str | None, split: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(path: str, name: str | None, *, split: str) -> list[dict[str, str]]:
        return [{"source": f"{path} {name}", "target": split}]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    assert read_pairs((where,)) == [Pair(f"{name} {config}", split)]


@pytest.mark.parametrize("where", ["hf:", "hf:@de-en", "hf:name@:test", "hf:name:"])
def test_hub_names_that_are_none(where: str) -> None:
    refused((where,), f"{where} is not hf:NAME", "hf:wmt14@de-en:test")


def test_hub_without_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    refused(("hf:wmt14",), 'pip install "regard[data]"')


def test_files_do_not_import_datasets(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def guarded(name: str, *rest: object) -> object:
        assert not re.match(r"datasets\b", name)
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", guarded)
    assert read_pairs((write("a.tsv", "a\tb"),)) == [Pair("a", "b")]

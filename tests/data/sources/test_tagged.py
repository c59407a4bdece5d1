"""Tagged sentences from columns, JSON lines, the hub and what comes along; and what is wrong with a file, by its line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.sources.tagged import TaggedSentence, read_tagged, read_words

CONLL = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n\n-DOCSTART- -X- -X- O\nPeter NNP B-NP B-PER\n"


def plain(found: list[TaggedSentence]) -> list[list[tuple[str, str]]]:
    return [list(zip(sentence.words, sentence.tags)) for sentence in found]


def read(path: Path, *columns: str, limit: int | None = None) -> list[list[tuple[str, str]]]:
    return plain(read_tagged((str(path),), columns, limit))


def test_conlls_columns(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text(CONLL)
    assert read(path) == [[("EU", "B-ORG"), ("rejects", "O")], [("Peter", "B-PER")]]
    assert read(path, "0", "1") == [[("EU", "NNP"), ("rejects", "VBZ")], [("Peter", "NNP")]]
    assert read(path, limit=1) == [[("EU", "B-ORG"), ("rejects", "O")]]
    first, second = read_tagged((str(path),))
    assert first.at(1) == f"{path}, line 4"
    assert second.at(0) == f"{path}, line 8"


@pytest.mark.parametrize("name", ["a.conll", "a.bio", "a.iob", "a.tsv", "a.TXT", "a.txt.gz"])
def test_names_of_files(name: str, tmp_path: Path) -> None:
    opened = gzip.open if name.endswith(".gz") else open
    with opened(tmp_path / name, "wb") as file:
        file.write("\ufeffNew York\tB-LOC\r\nis\tO\r\n\r\nOslo\tB-LOC".encode())
    assert read(tmp_path / name) == [[("New York", "B-LOC"), ("is", "O")], [("Oslo", "B-LOC")]]


word = st.text(st.characters(categories=["L", "N", "P", "S", "M"]), min_size=1, max_size=6).filter(
    lambda word: not word.startswith("-DOCSTART-")
)


@given(st.lists(st.lists(st.tuples(word, st.sampled_from(["O", "B-X", "I-X"])), min_size=1, max_size=5), min_size=1, max_size=5))
@settings(max_examples=60)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list[list[tuple[str, str]]]) -> None:
    folder = tmp_path_factory.mktemp("tagged")
    (folder / "a.conll").write_text("\n\n".join("\n".join(f"{w}\t{t}" for w, t in row) for row in rows), "utf-8")
    (folder / "a.jsonl").write_text(
        "".join(json.dumps({"words": [w for w, _ in row], "tags": [t for _, t in row]}) + "\n" for row in rows), "utf-8"
    )
    assert read(folder / "a.conll") == read(folder / "a.jsonl") == rows


def test_json_lines_and_several_files(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"tokens": ["Ann", "slept"], "pos": [3, 5]}\n')
    (tmp_path / "b.jsonl").write_text('{"tokens": ["Bob"], "pos": [3]}\n')
    found = read_tagged((str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")), ("tokens", "pos"))
    assert plain(found) == [[("Ann", "3"), ("slept", "5")], [("Bob", "3")]]
    assert found[0].at(1) == f"{tmp_path / 'a.jsonl'}, line 1, word 2 ('slept')"


def test_the_hub_names_its_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    names = datasets.ClassLabel(names=["O", "B-PER"])
    features = datasets.Features({"tokens": datasets.Sequence(datasets.Value("string")), "ner_tags": datasets.Sequence(names)})
    rows: Any = datasets.Dataset.from_dict({"tokens": [["Ann", "slept"]], "ner_tags": [[1, 0]]}, features=features)
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: rows)
    found = read_tagged(("hf:x",), ("tokens", "ner_tags"))
    assert plain(found) == [[("Ann", "B-PER"), ("slept", "O")]]
    with pytest.raises(UserError, match=r"hf:x, row 0: there is no column 'words' .*data.columns=WORDS,TAGS"):
        read_tagged(("hf:x",))


def test_built_in_sentences() -> None:
    assert len(read_tagged(("builtin:dispatches/valid",))) == 400
    for where, says in {
        "builtin:dispatchs/train": "did you mean 'dispatches'",
        "builtin:dispatches": "lacks a split",
        "builtin:dispatches/dev": "no split 'dev'",
    }.items():
        with pytest.raises(UserError, match=says):
            read_tagged((where,))


@pytest.mark.parametrize(
    ("name", "content", "columns", "says"),
    [
        ("a.txt", b"Ann B-PER\nslept\n", (), "line 2: columns found: 1, expected: 2 as in the first line"),
        ("a.txt", b"Ann B-PER\nslept O O\n", (), "line 2: columns found: 3, expected: 2"),
        ("a.txt", b"Ann\nslept\n", (), "line 1: columns found: 1, but a word and its tag are expected"),
        ("a.txt", b"Ann O\n", ("0", "3"), "line 1: columns found: 2, but data.columns=0,3 asks for more"),
        ("a.txt", b"Ann O\n", ("word", "tag"), "columns without names; choose them by number"),
        ("a.tsv", b"Ann\tB-PER\nslept\t\n", (), "line 2: the tag is empty"),
        ("a.tsv", b"Ann\tB-PER\n\tO\n", (), "line 2: the word is empty"),
        ("a.tsv", b"Ann\tB PER\n", (), "line 1: 'B PER' is no tag"),
        ("a.txt", b"", (), "is empty"),
        ("a.txt", b"\n \n\n", (), "is empty"),
        ("a.txt", b"-DOCSTART- O\n\n-DOCSTART- O\n", (), "there are no sentences"),
        ("a.txt", b"Ann O\ncaf\xe9 O\n", (), "line 2, byte 4: 0xE9 is not UTF-8"),
        ("a.txt", b"Ann\0 O\n", (), "NUL byte"),
        ("a.txt", "Ann O".encode("utf-16"), (), "this is UTF-16"),
        ("a.doc", b"Ann O\n", (), "tagged sentences come in files named *.txt"),
        ("a.txt.gz", b"Ann O\n", (), "not a whole gzip file"),
        ("a.jsonl", b'{"words": ["a"], "tags": []}', (), "line 1: words found: 1, tags: 0"),
        ("a.jsonl", b'{"words": [], "tags": []}', (), "there are no words"),
        ("a.jsonl", b'{"words": ["a", 3], "tags": ["O", "O"]}', (), "word 2: 3 is no word"),
        ("a.jsonl", b'{"words": ["a", " "], "tags": ["O", "O"]}', (), "word 2: ' ' is no word"),
        ("a.jsonl", b'{"words": ["\\ud800"], "tags": ["O"]}', (), "half a character"),
        ("a.jsonl", b'{"words": ["a"], "tags": [null]}', (), "word 1: None is no tag"),
        ("a.jsonl", b'{"words": ["a"], "tags": ["B PER"]}', (), "word 1: 'B PER' is no tag"),
        ("a.jsonl", b'{"words": "Ann slept", "tags": ["O"]}', (), "column 'words' holds str, but a list is needed"),
        ("a.jsonl", b'{"word": ["a"], "tags": ["O"]}', (), "there is no column 'words'"),
        ("a.jsonl", b'["a"]', (), "object expected"),
        ("a.jsonl", b"{", (), "this is not JSON"),
    ],
)
def test_what_is_wrong_is_told_by_its_line(
    name: str, content: bytes, columns: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError) as told:
        read_tagged((str(path),), columns)
    assert says in str(told.value)
    assert name in str(told.value)


CONLLU = """# newdoc id = one
# text = I don't go
1\tI\tI\tPRON\tPRP\t_\t0\troot\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t1\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_
3.1\tgone\tgo\tVERB\tVBN\t_\t_\t_\t1:x\t_
4\t#\t#\tSYM\tNN\t_\t_\t_\t_\t_

# newdoc id = two
1\tGo\tgo\tVERB\tVB\t_\t_\t_\t_\t_
"""


def test_a_treebank(tmp_path: Path) -> None:
    """Neither comments nor words that are written together nor unwritten ones are words; it need not be parsed."""
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU)
    (tmp_path / "a.conllu.gz").write_bytes(gzip.compress(CONLLU.encode()))
    speech = [[("I", "PRON"), ("do", "AUX"), ("n't", "PART"), ("#", "SYM")], [("Go", "VERB")]]
    assert read(path) == read(tmp_path / "a.conllu.gz") == read(path, "1", "3") == speech
    assert read(path, "form", "xpos")[0] == [("I", "PRP"), ("do", "VBP"), ("n't", "RB"), ("#", "NN")]
    assert read(path, "lemma", "UPOS")[1] == [("go", "VERB")]
    first, second = read_tagged((str(path),))
    assert [first.at(n) for n in range(4)] == [f"{path}, line {line}" for line in (3, 5, 6, 8)]
    assert (first.document, second.document) == (1, 2)
    with pytest.raises(UserError, match=r"no column 'xpo'; did you mean 'xpos'\?"):
        read(path, "form", "xpo")
    path.write_text("1\tI\n")
    with pytest.raises(UserError, match="line 1: columns found: 2, expected: 10"):
        read(path)
    assert read_words(tmp_path / "a.conllu.gz") == [("I", "do", "n't", "#"), ("Go",)]


def test_words_alone(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text(CONLL)
    assert read_words(tmp_path / "a.conll") == [("EU", "rejects"), ("Peter",)]
    (tmp_path / "a.conll").write_text("EU\nrejects\n\nPeter\n")
    assert read_words(tmp_path / "a.conll") == [("EU", "rejects"), ("Peter",)]
    (tmp_path / "a.conll").write_text(CONLL)
    assert [sentence.document for sentence in read_tagged((str(tmp_path / "a.conll"),))] == [1, 2]

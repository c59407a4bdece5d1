"""Which columns of a table are read: by their names where these leave no doubt, else by advice that can be typed as it stands."""

from __future__ import annotations

import gzip
import json
import shlex
from pathlib import Path

import pytest

from regard.core.errors import UserError
from regard.data.sources.columns import Choice, labelled_columns, pair_columns, role
from regard.data.sources.labelled import choose_columns, describe_columns, read_labelled
from regard.data.sources.parallel import describe_columns as told_sides
from regard.data.sources.parallel import read_pairs
from tests.command import refused, regard


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("text, Review text, reviewText, SENTENCE, tweet_content, Title", "text"),
        ("label, sentiment, Class Index, review_score, is_duplicate, gold_label, Rating", "label"),
        ("id, idx, Index, GUID, review_id, , #1 ID, #2 ID", "id"),
        ("user, date, label_text, v1", None),
    ],
)
def test_what_a_name_says(names: str, expected: str | None) -> None:
    assert {role(name) for name in names.split(", ")} == {expected}


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("id,Review text,sentiment", "Review text,sentiment"),
        ("label,text", "text,label"),
        ("target,ids,date,flag,user,text", "text,target"),
        (",Unnamed,review,Rating", "review,Rating"),
        ("index,sentence1,sentence2,label", "sentence1,sentence2,label"),
        ("Quality,#1 ID,#2 ID,#1 String,#2 String", "#1 String,#2 String,Quality"),
        ("index,question,sentence,label", "question,sentence,label"),
        ("id,qid1,qid2,question1,question2,is_duplicate", "question1,question2,is_duplicate"),
        ("premise,hypothesis,label,idx", "premise,hypothesis,label"),
        ("index,genre,filename,year,old_index,source1,source2,sentence1,sentence2,score", "sentence1,sentence2,score"),
        ("index,promptID,pairID,genre,sentence1_parse,sentence1,sentence2,label1,gold_label", "sentence1,sentence2,gold_label"),
        ("text_a,text_b,label", "text_a,text_b,label"),
        ("Title,Description,Class Index", ""),
        ("text,score,rating", ""),
        ("v1,v2", ""),
    ],
)
def test_headers_that_people_have(header: str, columns: str) -> None:
    found = labelled_columns(header.split(","))
    assert found.columns == tuple(columns.split(",") if columns else ())
    assert bool(found.doubt) == (not columns)


def test_source_and_target() -> None:
    for header in ("source,target", "en,de", "English,French", "input,output"):
        assert pair_columns(["id", *header.split(",")]) == Choice(tuple(header.split(",")))
    assert not pair_columns(["one", "two"]).columns
    assert not pair_columns(["en", "de", "fr"]).columns


def table(path: Path, header: str, row: str, rows: int = 30) -> str:
    """A header, and rows that count: {n} and, of two labels, {y}."""
    lines = [row.format(n=n, y=("good", "bad")[n % 2]) for n in range(rows)]
    path.write_text("\n".join([header, *lines] if header else lines) + "\n")
    return str(path)


def advised(error: pytest.ExceptionInfo[UserError]) -> list[tuple[str, ...]]:
    """The choices of a refusal, as a shell would read them."""
    words = [word.rstrip(".;,") for word in shlex.split(str(error.value).replace("'s ", "s ")) if "data.columns=" in word]
    return [tuple(word.removeprefix("data.columns=").split(",")) for word in words if "TEXT" not in word]


def test_an_id_is_no_text(tmp_path: Path) -> None:
    path = table(tmp_path / "reviews.csv", "id,Review text,sentiment", "{n},film {n},{y}")
    assert [(example.texts, example.label) for example in read_labelled((path,))[:2]] == [
        (("film 0",), "good"),
        (("film 1",), "bad"),
    ]
    assert "not read: 'id'" in describe_columns((path,), ())[0]
    for columns in (("id", "Review text", "sentiment"), ("0", "1", "2"), ("id", "sentiment")):
        with pytest.raises(UserError, match=r"column 'id' numbers the rows") as error:
            read_labelled((path,), columns)
        (cure,) = advised(error)
        assert {example.texts for example in read_labelled((path,), cure)} == {(f"film {n}",) for n in range(30)}
    bare = table(tmp_path / "bare.tsv", "", "{n}\tfilm {n}\t{y}")
    with pytest.raises(UserError, match="would be a PAIR of texts, '0' and '1'") as error:
        read_labelled((bare,))
    assert advised(error) == [("1", "2")]


@pytest.mark.parametrize(
    ("name", "header", "row", "cure"),
    [
        ("a.tsv", "v1\tv2", "{y}\ta film {n}", ("v2", "v1")),
        ("a.tsv", "", "{y}\ta film {n}", ("1", "0")),
        ("a.tsv", "", "gj04\t{y}\t\ta sentence {n}", ("3", "1")),
        ("a.csv", "Class Index,Title,Description", "{y},film {n},it is the film {n}", ("Description", "Class Index")),
        ("a.tsv", "nr\twhat\tsort", "{n}\ta film {n}\t{y}", ("what", "sort")),
        ("a.csv", "date,user name,body text,message,mark", "mon,bob,a film {n} of two,hm {n},{y}", ("body text", "mark")),
    ],
)
def test_advice_works_when_it_is_typed(name: str, header: str, row: str, cure: tuple[str, ...], tmp_path: Path) -> None:
    path = table(tmp_path / name, header, row)
    with pytest.raises(UserError) as error:
        read_labelled((path,))
    assert advised(error)[0] == cure
    found = read_labelled((path,), cure)
    assert {example.label for example in found} == {"good", "bad"}
    assert len({example.texts for example in found}) == len(found) == 30
    assert all(example.second is None for example in found)


def test_numbers_below_a_header_that_is_understood(tmp_path: Path) -> None:
    """The names of the columns are no example."""
    path = table(tmp_path / "a.tsv", "label\tsentence", "{y}\ta film {n}")
    assert len(read_labelled((path,), ("1", "0"))) == len(read_labelled((path,))) == 30
    assert choose_columns(path, ("1", "0")).called == ("sentence", "label")  # type: ignore[union-attr]


def test_a_first_row_that_only_looks_like_names(tmp_path: Path) -> None:
    rows = [("great review", "class"), ("text", "label"), ("bad review", "class"), ("text", "label")]
    (tmp_path / "a.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    assert [(example.text, example.label) for example in read_labelled((str(tmp_path / "a.tsv"),))] == rows
    (tmp_path / "b.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    assert len(read_labelled((str(tmp_path / "b.tsv"),))) == 5


def test_pairs_in_a_table_that_is_called_txt(tmp_path: Path) -> None:
    content = 'Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t5\t6\tone "cat\t"a cat\n0\t7\t8\tone dog\ta cat\n'
    (tmp_path / "pairs.txt.gz").write_bytes(gzip.compress(content.encode()))
    assert [(e.texts, e.label) for e in read_labelled((str(tmp_path / "pairs.txt.gz"),))] == [
        (('one "cat', '"a cat'), "1"),
        (("one dog", "a cat"), "0"),
    ]


def test_json_lines_by_their_keys(tmp_path: Path) -> None:
    rows = [{"idx": n, "premise": f"a {n}", "hypothesis": "b", "label": n % 2} for n in range(4)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [(e.texts, e.label) for e in read_labelled((str(tmp_path / "a.jsonl"),))][1] == (("a 1", "b"), "1")
    assert "by its keys; not read: 'idx'" in describe_columns((str(tmp_path / "a.jsonl"),), ())[0]


def test_the_sides_of_a_translation(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", "id,en,de", "{n},one {n},ein {n}")
    assert read_pairs((path,))[0] == ("one 0", "ein 0")
    assert "source 'en', target 'de'" in told_sides((path,), None)[0]
    assert len(read_pairs((table(tmp_path / "b.tsv", "source\ttarget", "a {n}\tb {n}"),))) == 30
    assert len(read_pairs((table(tmp_path / "c.tsv", "the cat\tle chat", "a {n}\tb {n}"),))) == 31


TINY = ("model.width=16", "model.heads=2", "model.layers=1", "model.feedforward=32", "text.size=200")


def test_the_report_shows_what_is_read(tmp_path: Path) -> None:
    train = table(tmp_path / "train.csv", "id,Review text,sentiment", '{n},"film, number {n}",{y}')
    dry = ("train", "bert-classify", f"data.train={train}", "data.test=", *TINY, "--dry-run", "--out", tmp_path / "run")
    told = regard(*dry, f"data.valid={train}")
    assert told.code == 0, told.err
    assert f"{train}: text 'Review text', label 'sentiment', by its header; not read: 'id'" in told.err
    assert "'film, number 0' is 'good'" in told.err
    assert "'film, number 2' is 'good'" in told.err
    assert "'film, number 3'" not in told.err
    assert "PAIR" not in told.err
    pairs = table(tmp_path / "pairs.tsv", "index\tsentence1\tsentence2\tlabel", "{n}\ta {n}\tb {n}\t{y}")
    told = regard(*dry, f"data.train={pairs}", f"data.valid={pairs}")
    assert told.code == 0, told.err
    assert "each example is a PAIR of texts, 'sentence1' and 'sentence2'" in told.err
    assert "finetune-pair" in told.err
    assert "'a 0' and 'b 0' is 'good'" in told.err
    refused(regard(*dry, f"data.valid={train}", "data.columns=id,Review text,sentiment"), "'data.columns=Review text,sentiment'")

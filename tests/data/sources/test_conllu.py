"""Dependency trees from files: what is read is what the format says, and what is no such file is told by its line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.sources.conllu import ROOT, Parsed, Word, read_conllu

TREES = """# sent_id = 1
# text = I don't see it.
1\tI\tI\tPRON\tPRP\t_\t4\tnsubj\t4:nsubj\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t4\taux\t4:aux\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t4:advmod\t_
4\tsee\tsee\tVERB\tVB\t_\t0\troot\t0:root\t_
4.1\tsee\tsee\tVERB\tVB\t_\t_\t_\t0:exroot\t_
5\tit\tit\tPRON\tPRP\t_\t4\tobj\t4:obj\tSpaceAfter=No
6\t.\t.\tPUNCT\t.\t_\t4\tpunct\t4:punct\t_

1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_
1\tde\tde\tADP\t_\t_\t3\tcase\t_\t_
2\tle\tle\tDET\t_\t_\t3\tdet\t_\t_
3\tbois\tbois\tNOUN\t_\t_\t0\troot\t_\t_
4\tcoupé\tcouper\tVERB\t_\t_\t3\tacl:relcl\t_\tLang=fr|SpaceAfter=No
"""


def read(folder: Path, text: str, name: str = "x.conllu") -> list[Parsed]:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return read_conllu(path)


@pytest.mark.parametrize("name", ["x.conllu", "X.CONLLU", "x.conllu.gz"])
def test_trees_by_hand(tmp_path: Path, name: str) -> None:
    english, french = read(tmp_path, TREES, name)
    assert english.text == "I don't see it."
    assert [english.text[word.start : word.end] for word in english.words] == ["I", "do", "n't", "see", "it", "."]
    assert [(word.head, word.relation) for word in english.words[:4]] == [(3, "nsubj"), (3, "aux"), (3, "advmod"), (ROOT, "root")]
    assert french.text == "du bois coupé"
    assert french.words[:2] == (Word("de", 0, 2, 2, "case"), Word("le", 0, 2, 2, "det"))  # neither is spelled in it
    assert french.words[3].relation == "acl"
    assert french.place.endswith("line 12")
    assert len(read_conllu(tmp_path / name, limit=1)) == 1


def row(n: int, form: str, head: int, spaced: bool) -> str:
    return f"{n}\t{form}\t_\t_\t_\t_\t{head}\trel\t_\t{'_' if spaced else 'SpaceAfter=No'}"


forms = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Zs", "Cn"]), min_size=1, max_size=5)


@given(words=st.lists(st.tuples(forms.filter(str.strip), st.booleans()), min_size=1, max_size=8), data=st.data())
@settings(max_examples=60)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, words: list[tuple[str, bool]], data: st.DataObject
) -> None:
    heads = [data.draw(st.integers(0, len(words)).filter(lambda head, n=n: head != n)) for n in range(1, len(words) + 1)]
    lines = [row(n, form, head, spaced) for n, ((form, spaced), head) in enumerate(zip(words, heads), start=1)]
    (found,) = read(tmp_path_factory.mktemp("x"), "# text = x\n" + "\n".join(lines) + "\n\n")
    assert found.text == "".join(form + " " * spaced for form, spaced in words).rstrip()
    assert [found.text[word.start : word.end] for word in found.words] == [form for form, _ in words]
    assert [word.head for word in found.words] == [head - 1 for head in heads]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("# only = comments\n", "has no sentences"),
        ("The cat sleeps.\n", "line 1: columns found: 1, expected: 10"),
        ("1 The the DET DT _ 2 det _ _\n", "line 1: columns found: 1, expected: 10"),
        (TREES.replace("\t_\n\n1-2", "\n\n1-2", 1), "line 10: columns found: 9"),
        (row(1, "a", 0, True) + "\n" + row(3, "b", 1, True), "line 2: word 3 stands where word 2 is expected"),
        (row(1, "a", 2, True), "the head of 'a' is word 2, but words go to 1"),
        (row(1, "a", 1, True), "and none is its own"),
        (row(1, "a", 0, True).replace("\t0\t", "\t_\t"), "has the head '_'"),
        (row(1, "a", 0, True).replace("rel", "_"), "and the relation '_'"),
        (row(1, "a", 0, True).replace("\t0\t", "\t-1\t"), "has the head '-1'"),
        (row(1, " ", 0, True), "the word is empty"),
        ("x" + row(1, "a", 0, True), "'x1' is no number of a word"),
        ("1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n" + row(1, "a", 0, True), "'ab' is said to be words 1-2, which do not follow it"),
        ("2-1\tab\t_\t_\t_\t_\t_\t_\t_\t_\n" + row(1, "a", 0, True), "which do not follow it"),
        ("1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n", "which do not follow it"),
        ("1-\tab\t_\t_\t_\t_\t_\t_\t_\t_\n", "'1-' is no number of a word"),
        ("1-999999999999\tab\t_\t_\t_\t_\t_\t_\t_\t_\n" + row(1, "a", 0, True), "which do not follow it"),
        ("²\ta\t_\t_\t_\t_\t0\troot\t_\t_\n", "is no number of a word"),
    ],
)
def test_what_is_no_tree_is_told_by_its_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UserError) as error:
        read(tmp_path, text)
    assert told in str(error.value)
    assert str(error.value).startswith(str(tmp_path))


def test_what_is_no_such_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"must end in \.conllu"):
        read(tmp_path, TREES, "x.txt")
    with pytest.raises(UserError, match="does not exist"):
        read_conllu(tmp_path / "none.conllu")
    (tmp_path / "bad.conllu.gz").write_bytes(b"no gzip")
    with pytest.raises(UserError, match=r"bad\.conllu\.gz"):
        read_conllu(tmp_path / "bad.conllu.gz")
    (tmp_path / "latin.conllu").write_bytes("1\té".encode("latin-1"))
    with pytest.raises(UserError, match=r"latin\.conllu"):
        read_conllu(tmp_path / "latin.conllu")

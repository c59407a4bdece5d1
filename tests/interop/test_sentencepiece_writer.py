"""SentencePiece files that are written are read as they were, by us and by their library."""

from __future__ import annotations

from pathlib import Path

import pytest
import sentencepiece

from regard.core.errors import UserError
from regard.interop.sentencepiece import NORMAL, UNKNOWN, Piece, read_model, read_pair
from regard.interop.sentencepiece_writer import encoded, marian_files
from regard.text.tokenizer import train_tokenizer
from tests.interop.sentencepiece_files import marian_folder

PIECES = [
    Piece("<unk>", 0.0, UNKNOWN),
    Piece("\u2581the", -1.5, NORMAL),
    Piece("\u2581", -2.0, NORMAL),
    Piece("é", -130.25, NORMAL),
]


@pytest.mark.parametrize(("begins", "removes"), [(True, True), (False, False)])
def test_a_model_is_read_as_it_was_written(begins: bool, removes: bool, tmp_path: Path) -> None:
    data = encoded(PIECES, b"", begins_with_space=begins, removes_spaces=removes)
    (tmp_path / "one.spm").write_bytes(data)
    found = read_model(tmp_path / "one.spm")
    assert found.pieces == PIECES
    assert (found.begins_with_space, found.removes_spaces, found.charsmap) == (begins, removes, b"")
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    assert [theirs.id_to_piece(n) for n in range(theirs.get_piece_size())] == [piece.text for piece in PIECES]
    assert theirs.encode("the  é", out_type=str)[0] == ("\u2581the" if begins else "the")


def test_the_files_of_a_pair_make_the_same_tokenizers(tmp_path: Path) -> None:
    pair = read_pair(marian_folder(tmp_path / "first"))
    (tmp_path / "again").mkdir()
    for name, content in marian_files(*pair, 64).items():
        (tmp_path / "again" / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert not (tmp_path / "again" / "target_vocab.json").exists()
    again = read_pair(tmp_path / "again")
    assert [one.raw.to_str() for one in again] == [one.raw.to_str() for one in pair]


def test_tokenizers_of_another_kind_are_refused() -> None:
    for kind, told in (("word", "without </s>"), ("unigram", "without </s>")):
        own = train_tokenizer(kind, ["the cat sees the dog"] * 20, 40)  # type: ignore[arg-type]
        with pytest.raises(UserError, match=f"{told}; export a run that began with a Marian folder"):
            marian_files(own, own, 64)

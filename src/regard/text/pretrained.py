"""The tokenizer of a public checkpoint: a Hugging Face folder's files, read so that text gets the ids its model learned.

    files in the folder       whose                 pieces
    tokenizer.json            any                   as the file says
    vocab.json, merges.txt    GPT-2, RoBERTa        byte-level BPE (Radford et al. 2019)
    the same with "</w>"      GPT-1                 BPE of lower-cased words without accents (Radford et al. 2018)
    vocab.txt                 BERT, ELECTRA         WordPiece (Devlin et al. 2019)

The first that is there is taken. Whatever such files say about adding specials, cutting or padding is left to our batches,
and the name of a special written by a person is text, as with tokenizers made here.
"""

from __future__ import annotations

import re
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from regard.core.errors import UserError
from regard.core.files import read_json, read_text
from regard.core.terminal import quoted
from regard.text.kinds import BYTE_LETTERS
from regard.text.specials import NAMES
from regard.text.tokenizer import Tokenizer, catch_panics, read_tokenizer
from regard.text.tokenizer_check import LARGEST, MOST_PIECES, check_pieces, read_large_json

END_OF_WORD = "</w>"
MOST_WRITTEN = 1000  # specials whose names are parted in texts
WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
"""White space as Unicode defines it: at the end of a line of vocab.txt it belongs to no piece."""

NEVER_IN_UTF8 = {0xC0, 0xC1, *range(0xF5, 0x100)}


def read_pretrained(folder: Path) -> Tokenizer:
    """Open the tokenizer in a Hugging Face folder. It has the specials its makers gave it: see `Tokenizer.roles`."""
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder} to read a tokenizer from. Give the folder that holds its files.")
    if (folder / "tokenizer.json").exists():
        raw = read_tokenizer(folder / "tokenizer.json", "or delete it if vocab.json and merges.txt, or vocab.txt, lie beside it.")
    elif (folder / "vocab.json").exists() and (folder / "merges.txt").exists():
        raw = _merged(folder)
    elif (folder / "vocab.txt").exists():
        raw = _wordpiece(folder)
    else:
        raise UserError(
            f"{folder} holds no tokenizer that can be read: there is no tokenizer.json, no vocab.json with merges.txt and no "
            "vocab.txt. Copy them from where the model came from; transformers' save_pretrained writes tokenizer.json."
        )
    with catch_panics(
        f"The tokenizer files in {folder} cannot be read"
    ):  # what parts need of each other shows only when they work
        _mark_specials(raw)
        _part_written_specials(folder, raw)
        return Tokenizer(raw)


def _merged(folder: Path) -> tokenizers.Tokenizer:
    """Build from vocab.json and merges.txt, in GPT-1's layout (tokens mark the end of a word) or GPT-2's."""
    pieces = read_large_json(folder / "vocab.json", folder)
    check_pieces(pieces if isinstance(pieces, dict) else None, str(folder / "vocab.json"))
    merges = _merges(folder / "merges.txt", folder)
    with catch_panics(f"The vocab.json and merges.txt in {folder} cannot be read"):
        if any(piece.endswith(END_OF_WORD) for piece in pieces):
            layout, model = _gpt1, models.BPE(pieces, merges, unk_token="<unk>", end_of_word_suffix=END_OF_WORD)
        else:
            layout, model = _gpt2, models.BPE(pieces, merges)
    _refuse_additions(folder, pieces)
    return layout(folder, pieces, tokenizers.Tokenizer(model))


def _merges(path: Path, folder: Path) -> list[tuple[str, str]]:
    """Read the merges: two tokens on each line, with a space between; a line that begins with #version is skipped."""
    lines = read_text(path, LARGEST, within=folder).removesuffix("\n").split("\n")
    if len(lines) > MOST_PIECES:
        raise UserError(f"{path} has {len(lines):,} merges; up to {MOST_PIECES:,} are read.")
    merges = []
    for number, line in enumerate(lines, 1):
        pair = line.removesuffix("\r").split(" ")
        if line.startswith("#version") or lines == [""]:
            continue
        if len(pair) != 2:
            raise UserError(f"{path}, line {number}: {quoted(line, 40)!r} is not two pieces with a space between. Copy it again.")
        merges.append((pair[0], pair[1]))
    return merges


def _gpt1(folder: Path, pieces: dict[str, int], raw: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    _need_unknown(folder / "vocab.json", "<unk>", pieces)
    raw.normalizer = normalizers.BertNormalizer(lowercase=True)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.decoder = decoders.BPEDecoder(suffix=END_OF_WORD)
    return raw


def _gpt2(folder: Path, pieces: dict[str, int], raw: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    missing = [byte for letter, byte in BYTE_LETTERS.items() if letter not in pieces and byte not in NEVER_IN_UTF8]
    if missing:
        raise UserError(
            f"{folder / 'vocab.json'} is neither GPT-1's kind of vocabulary (no piece ends in {END_OF_WORD}) nor GPT-2's: it has "
            f"no piece for {len(missing)} of the bytes, 0x{missing[0]:02X} to begin with, and would drop text. Use the model's "
            "tokenizer.json instead."
        )
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=_setting(folder, "add_prefix_space", False) is True)
    raw.decoder = decoders.ByteLevel()
    return raw


def _wordpiece(folder: Path) -> tokenizers.Tokenizer:
    lines = read_text(folder / "vocab.txt", LARGEST, within=folder).removesuffix("\n").split("\n")
    pieces = {line.rstrip(WHITE_SPACE): number for number, line in enumerate(lines)}
    check_pieces(pieces, str(folder / "vocab.txt"))
    _refuse_additions(folder, pieces)
    _need_unknown(folder / "vocab.txt", "[UNK]", pieces)
    raw = tokenizers.Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer(
        lowercase=_setting(folder, "do_lower_case", True) is True,
        strip_accents=_setting(folder, "strip_accents", None),  # None: exactly if lower-cased
        handle_chinese_chars=_setting(folder, "tokenize_chinese_chars", True) is True,
    )
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.decoder = decoders.WordPiece(prefix="##")
    return raw


def _setting(folder: Path, key: str, default: bool | None) -> bool | None:
    """Return a true or false setting of tokenizer_config.json, or None if that is the default."""
    value = _json_object(folder / "tokenizer_config.json", folder).get(key, default)
    if not isinstance(value, bool) and value is not default:
        said = quoted(repr(value), 40)
        raise UserError(f"{folder / 'tokenizer_config.json'}: {key} is {said}, but must be true or false. Correct the file.")
    return value


def _json_object(path: Path, folder: Path) -> dict[str, object]:
    if not path.exists():
        return {}
    found = read_json(path, within=folder)
    if not isinstance(found, dict):
        raise UserError(f"{path} must hold a JSON object, but holds {found!r:.40}. Copy it again from where it was made.")
    return found


def _refuse_additions(folder: Path, pieces: dict[str, int]) -> None:
    """Refuse added tokens, which only tokenizer.json describes; without it the ids would be wrong."""
    added = _json_object(folder / "added_tokens.json", folder)
    beyond = [piece for piece, number in added.items() if pieces.get(piece) != number]
    if beyond:
        raise UserError(
            f"{folder / 'added_tokens.json'} adds pieces to the vocabulary ({quoted(', '.join(beyond[:3]))}), and only a "
            "tokenizer.json says how they are meant. Open the folder with transformers' AutoTokenizer once and use what "
            "save_pretrained writes."
        )


def _need_unknown(path: Path, unknown: str, pieces: dict[str, int]) -> None:
    if unknown not in pieces:
        raise UserError(f"{path} has no piece {unknown} for what it cannot spell. Copy the file again from where it was made.")


def _mark_specials(raw: tokenizers.Tokenizer) -> None:
    """Mark tokens that have the name of a role as special, which vocabulary files do not say."""
    marked = {piece.content for piece in raw.get_added_tokens_decoder().values() if piece.special}
    names = dict.fromkeys(name for names in NAMES.values() for name in names)
    raw.add_special_tokens([name for name in names if name not in marked and raw.token_to_id(name) is not None])


def _part_written_specials(folder: Path, raw: tokenizers.Tokenizer) -> None:
    """Split off the first letter of a special token's name in text, where the model would find it (as T5's does)."""
    raw.encode_special_tokens = True
    names = [piece.content for piece in raw.get_added_tokens_decoder().values() if piece.special and len(piece.content) > 1]
    found = [name for name in names if _finds(raw, name)]
    if not found:
        return
    if len(found) > MOST_WRITTEN:
        raise UserError(
            f"{folder} has {len(found):,} specials that its model would find in a text; up to {MOST_WRITTEN:,} are read."
        )
    first_letters = "|".join(f"{re.escape(name[0])}(?={re.escape(name[1:])})" for name in found)
    parted = pre_tokenizers.Split(Regex(first_letters), "isolated")
    before = [raw.pre_tokenizer] if raw.pre_tokenizer is not None else []
    raw.pre_tokenizer = pre_tokenizers.Sequence([*before, parted])


def _finds(raw: tokenizers.Tokenizer, name: str) -> bool:
    """Return True if the token of this name is found where its name is written."""
    text = f"{name} a{name}a"
    found = raw.encode(text, add_special_tokens=False)
    return any(piece == name == text[start:end] for piece, (start, end) in zip(found.tokens, found.offsets))

"""Folders of public tokenizers, small ones made here and the real ones if REGARD_DATA says where: the ids are those of others."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.core.errors import UserError
from regard.text.pretrained import read_pretrained
from regard.text.specials import Roles
from regard.text.tokenizer import Tokenizer
from tests.text.samples import TEXTS, any_text, mixed_lines, trained

LINES = [*TEXTS, *mixed_lines(300, seed=1), "", " ", "The  Street\n\n  was ÉTROITE, isn't it?\t"]
BERT_SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


# folders as others write them ---------------------------------------------------------------------------------------
def byte_level(folder: Path, specials: list[str]) -> Path:
    trainer = tokenizers.ByteLevelBPETokenizer(add_prefix_space=False)
    trainer.train_from_iterator(TEXTS, vocab_size=350, special_tokens=specials, show_progress=False)
    trainer.save_model(str(folder))
    return folder


def gpt2(folder: Path) -> Path:
    return byte_level(folder, ["<|endoftext|>"])


def roberta(folder: Path) -> Path:
    return byte_level(folder, ROBERTA_SPECIALS)


def gpt1(folder: Path) -> Path:
    raw = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    raw.normalizer, raw.pre_tokenizer = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    trainer = trainers.BpeTrainer(vocab_size=160, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False)
    raw.train_from_iterator(TEXTS, trainer)
    raw.model.save(str(folder))
    return folder


def bert(folder: Path) -> Path:
    trainer = tokenizers.BertWordPieceTokenizer(lowercase=False, strip_accents=False)
    trainer.train_from_iterator(
        [*TEXTS, *map(str.lower, TEXTS)], vocab_size=250, special_tokens=BERT_SPECIALS, show_progress=False
    )
    trainer.save_model(str(folder))
    return folder


def t5(folder: Path) -> Path:
    """A unigram model in whose pieces the specials are, and that was last used with truncation and padding."""
    raw = trained("unigram").raw
    pieces = json.loads(raw.to_str())["model"]["vocab"][4:]
    specials = ["<pad>", "</s>", "<unk>", "<extra_id_0>"]
    raw = tokenizers.Tokenizer(models.Unigram([*((name, 0.0) for name in specials), *map(tuple, pieces)], unk_id=2))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    raw.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    raw.add_special_tokens(specials)
    raw.enable_truncation(max_length=3)
    raw.enable_padding(length=12)
    raw.save(str(folder / "tokenizer.json"))
    return folder


FOLDERS: list[Callable[[Path], Path]] = [gpt2, roberta, gpt1, bert, t5]
every_folder = pytest.mark.parametrize("write", FOLDERS, ids=lambda write: write.__name__)


def theirs(name: str, folder: Path, **settings: Any) -> Callable[[str], list[int]]:
    import transformers

    oracle = getattr(transformers, name).from_pretrained(folder, **settings)
    return lambda text: list(oracle(text, add_special_tokens=False)["input_ids"])


# the same ids ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("write", "name"),
    [(gpt2, "GPT2Tokenizer"), (roberta, "RobertaTokenizer"), (gpt1, "OpenAIGPTTokenizer"), (bert, "BertTokenizer")],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_the_ids_are_those_of_transformers(write: Callable[[Path], Path], name: str, tmp_path: Path) -> None:
    folder = write(tmp_path)
    ours, oracle = read_pretrained(folder), theirs(name, folder)
    assert [ours.encode(line) for line in LINES] == [oracle(line) for line in LINES]


@pytest.mark.parametrize(
    "config",
    [
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False},
        {"strip_accents": None, "tokenize_chinese_chars": False},
        {},
    ],
)
def test_berts_settings_are_heeded(config: dict[str, bool | None], tmp_path: Path) -> None:
    folder = bert(tmp_path)
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    ours, oracle = read_pretrained(folder), theirs("BertTokenizer", folder, **config)
    assert [ours.encode(line) for line in LINES] == [oracle(line) for line in LINES]
    kept = tokenizers.BertWordPieceTokenizer(
        str(folder / "vocab.txt"),
        lowercase=config.get("do_lower_case", True),
        strip_accents=config.get("strip_accents"),
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
    )
    assert [ours.encode(line) for line in LINES] == [kept.encode(line, add_special_tokens=False).ids for line in LINES]


@pytest.mark.parametrize("prefix", [False, True])
def test_gpt2s_settings_are_heeded(prefix: bool, tmp_path: Path) -> None:
    folder = gpt2(tmp_path)
    (folder / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": prefix}), encoding="utf-8")
    files = [str(folder / name) for name in ("vocab.json", "merges.txt")]
    oracle = tokenizers.ByteLevelBPETokenizer(*files, add_prefix_space=prefix)
    assert [read_pretrained(folder).encode(line) for line in LINES] == [oracle.encode(line).ids for line in LINES]


def test_tokenizer_json_is_taken_before_the_other_files(tmp_path: Path) -> None:
    raw = read_pretrained(t5(tmp_path)).raw
    assert read_pretrained(gpt2(tmp_path)).raw.to_str() == raw.to_str()


# roles and specials ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("write", "roles"),
    [
        (gpt2, Roles(sos=0, eos=0)),
        (roberta, Roles(sos=0, pad=1, eos=2, unk=3, mask=4)),
        (gpt1, Roles(unk=0)),
        (bert, Roles(pad=0, unk=1, cls=2, sep=3, mask=4)),
        (t5, Roles(pad=0, eos=1, unk=2)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_roles(write: Callable[[Path], Path], roles: Roles, tmp_path: Path) -> None:
    tokenizer = read_pretrained(write(tmp_path))
    assert tokenizer.roles == roles
    assert {i for i in roles if i is not None} <= tokenizer.specials


@every_folder
def test_specials_have_no_text_but_a_name_and_their_name_is_text(write: Callable[[Path], Path], tmp_path: Path) -> None:
    tokenizer = read_pretrained(write(tmp_path))
    specials = sorted(tokenizer.specials)
    names = tokenizer.tokens(specials)
    assert names
    assert names == [tokenizer.raw.id_to_token(i) for i in specials]
    ids = tokenizer.encode("the street")
    assert tokenizer.decode([*specials, ids[0], *specials, *ids[1:], *specials]) == "the street"
    for name in names:
        for text in (name, f"the{name}street", f"the {name} {name}{name}", f" {name.upper()}"):
            assert not tokenizer.specials - {tokenizer.roles.unk} & set(tokenizer.encode(text)), text


@every_folder
@given(text=st.one_of(any_text, st.lists(st.sampled_from(["the", " ", "</s>", "<", "<pad>", "[MASK]", "é", "\n"])).map("".join)))
@settings(max_examples=20)
def test_no_text_makes_a_special(write: Callable[[Path], Path], text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    tokenizer = kept(write, tmp_path_factory)
    assert not tokenizer.specials - {tokenizer.roles.unk} & set(tokenizer.encode(text))
    if write in (gpt2, roberta):
        assert tokenizer.decode(tokenizer.encode(text)) == text


KEPT: dict[str, Tokenizer] = {}


def kept(write: Callable[[Path], Path], folders: pytest.TempPathFactory) -> Tokenizer:
    if write.__name__ not in KEPT:
        KEPT[write.__name__] = read_pretrained(write(folders.mktemp(write.__name__)))
    return KEPT[write.__name__]


def test_what_a_file_says_about_cutting_padding_and_adding_is_left_out(tmp_path: Path) -> None:
    theirs_as_it_is = tokenizers.Tokenizer.from_file(str(t5(tmp_path) / "tokenizer.json"))
    assert len(theirs_as_it_is.encode(TEXTS[0]).ids) == 12
    ours = read_pretrained(tmp_path)
    theirs_as_it_is.no_truncation()
    theirs_as_it_is.no_padding()
    ids = theirs_as_it_is.encode(TEXTS[0], add_special_tokens=False).ids
    assert len(ids) > 12
    assert ours.encode_batch([TEXTS[0], "the"])[0] == ours.encode(TEXTS[0]) == ids
    assert Tokenizer(tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))).encode(TEXTS[0]) == ids


@every_folder
def test_saved_and_loaded_it_is_the_same(write: Callable[[Path], Path], tmp_path: Path) -> None:
    ours = read_pretrained(write(tmp_path))
    ours.save(tmp_path / "saved.json")
    ours.save(tmp_path / "tokenizer.json")
    for again in (Tokenizer.load(tmp_path / "saved.json", foreign=True), read_pretrained(tmp_path)):
        assert again.fingerprint() == ours.fingerprint()
        assert (again.roles, again.specials, len(again)) == (ours.roles, ours.specials, len(ours))
        assert again.encode_batch([*LINES, "</s> [CLS]"]) == ours.encode_batch([*LINES, "</s> [CLS]"])
    with pytest.raises(UserError, match=r"not one of ours"):
        Tokenizer.load(tmp_path / "saved.json")


def test_a_tokenizer_of_ours_is_read_too(tmp_path: Path) -> None:
    trained("byte-bpe").save(tmp_path / "tokenizer.json")
    assert read_pretrained(tmp_path).fingerprint() == trained("byte-bpe").fingerprint()


def test_gaps_count_and_pieces_added_as_text_are_shown_as_text(tmp_path: Path) -> None:
    lines = ["[UNK]", "the", "the", "street", "[PAD]"]  # the number of a piece is its line: BERT's rule, and 1 is nobody's
    (tmp_path / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tokenizer = read_pretrained(tmp_path)
    assert len(tokenizer) == 5
    assert tokenizer.encode("the street") == [2, 3]
    with pytest.raises(UserError, match=r"Id 1 is not in this vocabulary"):
        tokenizer.tokens([1])
    raw = read_pretrained(gpt2(tmp_path)).raw
    raw.add_tokens(["日本 語"])
    added = Tokenizer(raw)
    assert added.tokens(added.encode("the日本 語")) == ["the", "日本▁語"]


# mistakes -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("write", "file", "content", "sentence"),
    [
        (gpt2, "tokenizer.json", "{", r"tokenizer\.json cannot be read as JSON.*vocab\.json"),
        (gpt2, "vocab.json", "[1]", r"vocab\.json has no vocabulary"),
        (gpt2, "vocab.json", '{"a": 0}', r"cannot be read \(.*out of vocabulary"),
        (gpt2, "merges.txt", "a b\nc\n", r"merges\.txt, line 2: 'c' is not two pieces"),
        (gpt1, "vocab.json", '{"a</w>": 0}', r"cannot be read"),
        (gpt2, "tokenizer_config.json", "no", r"tokenizer_config\.json cannot be read as JSON"),
        (gpt2, "tokenizer_config.json", "[1]", r"must hold a JSON object, but holds \[1\]"),
        (gpt2, "tokenizer_config.json", '{"add_prefix_space": 1}', r"add_prefix_space is 1, but must be true or false"),
        (bert, "tokenizer_config.json", '{"do_lower_case": "yes"}', r"do_lower_case is 'yes', but must be true or false"),
        (bert, "tokenizer_config.json", '{"do_lower_case": null}', r"do_lower_case is None, but must be true or false"),
        (bert, "vocab.txt", "the\nstreet\n", r"vocab\.txt has no piece \[UNK\]"),
        (gpt2, "added_tokens.json", '{"<speaker>": 350}', r"adds pieces to the vocabulary \(<speaker>\).*save_pretrained"),
    ],
)
def test_damaged_files(write: Callable[[Path], Path], file: str, content: str, sentence: str, tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / file).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=sentence):
        read_pretrained(folder)


def test_vocabularies_that_would_drop_text(tmp_path: Path) -> None:
    (tmp_path / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    for pieces, sentence in ((["a", "b"], r"no piece for 241 of the bytes, 0x00"), (["a</w>"], r"no piece <unk>")):
        (tmp_path / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}), encoding="utf-8")
        with pytest.raises(UserError, match=sentence):
            read_pretrained(tmp_path)
    raw = tokenizers.Tokenizer(models.WordPiece({"the": 0, "[PAD]": 1}, unk_token="[UNK]"))
    raw.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(UserError, match=r"tokenizer files .* cannot be read \(.*\[UNK\]"):
        read_pretrained(tmp_path)


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    for file in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        folder = tmp_path / file.replace(".", "_")
        folder.mkdir()
        (bert(folder) / file).write_bytes(b"\xff\xfe{")
        with pytest.raises(UserError, match=r"is not UTF-8"):
            read_pretrained(folder)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no folder .*missing"):
        read_pretrained(tmp_path / "missing")
    (tmp_path / "vocab.json").write_text("{}", encoding="utf-8")  # without its merges
    with pytest.raises(UserError, match=r"no tokenizer\.json, no vocab\.json with merges\.txt and no vocab\.txt"):
        read_pretrained(tmp_path)


# the real ones --------------------------------------------------------------------------------------------------------
@pytest.fixture
def real(tmp_path: Path) -> Callable[[str, dict[str, str]], Path]:
    """Unpacks published files under the names a Hugging Face folder has for them."""
    data = os.environ.get("REGARD_DATA")
    if not data:
        pytest.skip("set REGARD_DATA to a folder with tokenizers/ in it")

    def unpack(name: str, files: dict[str, str]) -> Path:
        for packed, plain in files.items():
            (tmp_path / plain).write_bytes(gzip.decompress((Path(data) / "tokenizers" / name / packed).read_bytes()))
        return tmp_path

    return unpack


@pytest.fixture
def real_gpt2(real: Callable[[str, dict[str, str]], Path]) -> Path:
    return real("gpt2_bpe", {"encoder.json.gz": "vocab.json", "vocab.bpe.gz": "merges.txt"})


def test_gpt2s_own_vocabulary_on_ten_thousand_lines(real_gpt2: Path) -> None:
    ours, lines = read_pretrained(real_gpt2), mixed_lines(10_000, seed=2)
    library = tokenizers.ByteLevelBPETokenizer(str(real_gpt2 / "vocab.json"), str(real_gpt2 / "merges.txt"))
    encoded = ours.encode_batch(lines)
    assert encoded == [encoding.ids for encoding in library.encode_batch(lines)]
    assert ours.decode_batch(encoded) == lines
    oracle = theirs("GPT2Tokenizer", real_gpt2)
    assert encoded[::5] == [oracle(line) for line in lines[::5]]


def test_gpt2s_own_vocabulary_as_published(real_gpt2: Path) -> None:
    """The ids that the documentation of GPT-2's tokenizer gives for "Hello world" with and without a space before it."""
    ours = read_pretrained(real_gpt2)
    assert len(ours) == 50257
    assert ours.roles == Roles(sos=50256, eos=50256)
    assert ours.encode("Hello world") == [15496, 995]
    assert ours.encode(" Hello world") == [18435, 995]
    assert ours.tokens([50256, 15496, 995, 198]) == ["<|endoftext|>", "Hello", "▁world", "\\n"]
    assert ours.decode([50256, 15496, 995, 50256]) == "Hello world"
    assert all(ours.tokens(range(len(ours))))


def test_berts_own_vocabularies(real: Callable[[str, dict[str, str]], Path]) -> None:
    lines = mixed_lines(2_000, seed=5)
    folder = real("bert_uncased_wordpiece", {"vocab.txt.gz": "vocab.txt"})
    ours, oracle = read_pretrained(folder), theirs("BertTokenizer", folder)
    assert ours.roles == Roles(pad=0, unk=100, cls=101, sep=102, mask=103)
    assert ours.encode("Hello, World!") == [7592, 1010, 2088, 999]
    assert ours.encode_batch(lines) == [oracle(line) for line in lines]
    folder = real("bert_cased_wordpiece", {"tokenizer.json.gz": "tokenizer.json"})
    cased = read_pretrained(folder)
    assert len(cased.encode("the " * 500)) == 500  # the file itself would cut it to 128
    assert cased.roles == Roles(pad=0, unk=100, cls=101, sep=102, mask=103)


def test_t5s_own_vocabulary(real: Callable[[str, dict[str, str]], Path]) -> None:
    folder = real("t5_unigram", {"tokenizer.json.gz": "tokenizer.json"})
    ours, raw = read_pretrained(folder), tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    raw.no_truncation()
    raw.no_padding()
    assert (len(ours), ours.roles) == (32100, Roles(pad=0, eos=1, unk=2))
    for line in mixed_lines(500, seed=6):
        assert ours.encode(line) == raw.encode(line, add_special_tokens=False).ids
    assert not ours.specials - {2} & set(ours.encode("a</s>b <pad><extra_id_3>"))

"""A Marian folder with two tokenizers becomes a translator: `regard import`, then `regard predict`, compared with generate."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from regard.core.errors import UserError
from regard.interop.sentencepiece import TokenizerPair, read_pair
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.pretrained import start_of
from regard.tasks.registry import open_run
from tests.command import regard
from tests.families.public_folder import shaken
from tests.interop.sentencepiece_files import marian_folder
from tests.model.position.schemes import shared_data

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

FIRST = ("</s>", "<unk>", "<pad>")
TEXTS = ["the cat", "the dogs at the cat .", "cat"]
SIZES = dict(d_model=24, encoder_layers=1, decoder_layers=2, encoder_attention_heads=3, decoder_attention_heads=3)
SIZES |= dict(encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=60, scale_embedding=True)
SIZES |= dict(activation_function="swish", bos_token_id=0, eos_token_id=0, forced_eos_token_id=0)


def with_weights(folder: Path, pair: TokenizerPair, **settings: Any) -> Any:
    """Write a random Marian beside the tokenizers of a folder, and return it."""
    pad = pair.target.raw.token_to_id("<pad>")
    assert pair.source.raw.token_to_id("<pad>") == pad  # transformers has one id for both
    ids = dict(pad_token_id=pad, decoder_start_token_id=pad)
    torch.manual_seed(2)
    config = transformers.MarianConfig(vocab_size=len(pair.source), **SIZES, **ids, **settings)
    theirs = shaken(transformers.MarianMTModel(config), 0.4)
    theirs.final_logits_bias += torch.randn(theirs.final_logits_bias.shape)
    search = dict(bad_words_ids=[[pad]], num_beams=2, max_length=16, eos_token_id=0, forced_eos_token_id=0)
    theirs.generation_config = transformers.GenerationConfig(**ids, **search)
    theirs.save_pretrained(folder)
    return transformers.MarianMTModel.from_pretrained(folder).eval()


def separate(folder: Path) -> Path:
    """Give the target ids of its own, fewer than the source has."""
    marian_folder(folder)
    pieces = [piece for piece in json.loads((folder / "vocab.json").read_text("utf-8")) if piece not in FIRST]
    written = [piece for piece in pieces if piece not in ("▁cat", "▁dog", "▁the", ">>fra<<")]
    for name, kept in (("vocab.json", pieces), ("target_vocab.json", written)):
        (folder / name).write_text(json.dumps({piece: n for n, piece in enumerate([*FIRST, *kept])}), "utf-8")
    return folder


def must_write_alike(folder: Path, theirs: Any, pair: TokenizerPair, out: Path, texts: list[str]) -> None:
    result = regard("import", folder, out, "--check")
    assert result.code == 0, result.err
    assert "largest difference from transformers" in result.out + result.err
    assert {path.name for path in out.glob("tokenizer*")} == {"tokenizer.source.json", "tokenizer.target.json"}
    run: Any = open_run(out, "cpu")
    assert run.attention(texts[0])[0] == run(texts[0])
    found = [best[0].ids for best in run.translate(texts)]
    for text, ids in zip(texts, found):
        source = [*pair.source.encode(text), 0]
        written = theirs.generate(input_ids=torch.tensor([source]), attention_mask=torch.ones(1, len(source)))[0, 1:].tolist()
        assert ids == written[: written.index(0)]
    result = regard("explain", out)
    assert result.code == 0, result.err
    assert f"{sum(p.numel() for p in run.model.parameters()):,}" in result.out
    result = regard("predict", out, texts[0], "--device", "cpu")
    assert (result.code, result.out) == (0, f"{pair.target.decode(found[0])}\n"), result.err


def test_one_vocabulary_of_two_tokenizers(tmp_path: Path) -> None:
    folder = marian_folder(tmp_path / "marian")
    pair = read_pair(folder)
    theirs = with_weights(folder, pair)
    must_write_alike(folder, theirs, pair, tmp_path / "run", TEXTS)


def test_two_vocabularies(tmp_path: Path) -> None:
    folder = separate(tmp_path / "marian")
    pair = read_pair(folder)
    assert len(pair.target) < len(pair.source)
    apart = dict(share_encoder_decoder_embeddings=False, decoder_vocab_size=len(pair.target))
    theirs = with_weights(folder, pair, **apart)
    must_write_alike(folder, theirs, pair, tmp_path / "run", TEXTS)


def test_the_tokenizers_of_a_real_model(tmp_path: Path) -> None:
    for path in shared_data("tokenizers/opus-mt-en-mg").iterdir():
        if path.name in ("source.spm", "target.spm", "vocab.json"):
            shutil.copy(path, tmp_path)
    pair = read_pair(tmp_path)
    theirs = with_weights(tmp_path, pair)
    must_write_alike(tmp_path, theirs, pair, tmp_path / "run", ["The cat did not cross the street.", "Good morning!"])


def test_tokenizers_of_another_model_are_refused(tmp_path: Path) -> None:
    folder = separate(tmp_path / "marian")
    pair = read_pair(folder)
    apart = dict(share_encoder_decoder_embeddings=False, decoder_vocab_size=len(pair.target) + 1)
    with_weights(folder, pair, **apart)
    result = regard("import", folder, tmp_path / "run")
    assert result.code == 2
    assert f"its target's tokenizer has {len(pair.target)} pieces, its model writes {len(pair.target) + 1}" in result.err


def test_it_is_not_trained_on(tmp_path: Path) -> None:
    folder = marian_folder(tmp_path / "marian")
    with_weights(folder, read_pair(folder))
    with pytest.raises(UserError, match="has two tokenizers"):
        load_recipe_to_train("summarize", [f"task.init_from={folder}"])
    result = regard("import", folder, tmp_path / "run", "task.name=text_to_text")
    assert result.code == 2
    assert "has two tokenizers, and task.name=text_to_text reads and writes with one" in result.err
    regard("import", folder, tmp_path / "run")
    with pytest.raises(UserError, match="two vocabularies"):
        start_of(str(tmp_path / "run"))
    result = regard("export", tmp_path / "run", tmp_path / "out", "--to", "hf")
    assert result.code == 2
    assert "two vocabularies" in result.err

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
from regard.tasks.translation.prepare import prepare
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


PAIRS = [("the cat", "le chat"), ("the dogs", "le"), ("the cat at the dog", "chat le"), ("dogs", "chat chat")]
TINY = ["train.steps=3", "train.warmup=1", "train.learning_rate=1e-3", "train.validate_every=3", "train.checkpoint_every=1"]
TINY += ["train.tokens_per_batch=64", "data.valid_fraction=0.3", "data.valid=", "data.test=", "model.dropout=0"]
TINY += ["train.precision=fp32", "train.compile=false", "objective.smoothing=0"]


def tuned(start: Path, out: Path, *settings: str) -> Path:
    data = out.parent / "pairs.tsv"
    data.write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS * 3), "utf-8")
    result = regard("train", "translate", f"task.init_from={start}", f"data.train={data}", *TINY, *settings, "--out", out)
    assert result.code == 0, result.err
    return out


def folder_with_weights(folder: Path, apart: bool) -> tuple[Any, TokenizerPair]:
    pair = read_pair(separate(folder) if apart else marian_folder(folder))
    sizes = dict(share_encoder_decoder_embeddings=False, decoder_vocab_size=len(pair.target)) if apart else {}
    return with_weights(folder, pair, **sizes), pair


@torch.no_grad()
def logits_of(theirs: Any, pair: TokenizerPair) -> torch.Tensor:
    source = torch.tensor([[*pair.source.encode(TEXTS[1]), 0]])
    target = torch.tensor([[pair.target.raw.token_to_id("<pad>"), *pair.target.encode("le chat")]])
    return theirs(input_ids=source, decoder_input_ids=target).logits[0]


@pytest.mark.parametrize("apart", [False, True], ids=["one vocabulary", "two vocabularies"])
def test_it_is_fine_tuned_exported_and_imported(apart: bool, tmp_path: Path) -> None:
    """From the public folder to a run, to a folder that transformers opens, and back: the same ids, the same logits."""
    public, pair = folder_with_weights(tmp_path / "marian", apart)
    run = tuned(tmp_path / "marian", tmp_path / "run")
    mine: Any = open_run(run, "cpu")
    assert regard("export", run, tmp_path / "out", "--to", "hf").code == 0
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "out").eval()
    assert (logits_of(theirs, pair) - logits_of(public, pair)).abs().max() > 1e-3  # it has learned something
    source, target = [*pair.source.encode(TEXTS[1]), 0], [mine.marks.start, *pair.target.encode("le chat")]
    with torch.no_grad():
        own = mine.model(torch.tensor([source]), torch.tensor([len(source)]), torch.tensor([target]))[0]
    torch.testing.assert_close(own, logits_of(theirs, pair), atol=1e-4, rtol=0)
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path / "out")
    for text in TEXTS:
        assert tokenizer(text)["input_ids"] == [*pair.source.encode(text), 0]
        assert tokenizer(text_target="le chat")["input_ids"] == [*pair.target.encode("le chat"), 0]
    assert regard("import", tmp_path / "out", tmp_path / "back", "--check").code == 0
    again: Any = open_run(tmp_path / "back", "cpu")
    assert again.marks == mine.marks
    assert [one.raw.to_str() for one in again.tokenizers] == [one.raw.to_str() for one in mine.tokenizers]
    for name, weight in mine.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name]), name
    greedy = [open_run(folder, "cpu", ["decode.search=greedy"]) for folder in (run, tmp_path / "back")]
    assert greedy[0](TEXTS) == greedy[1](TEXTS)  # type: ignore[operator]


@torch.no_grad()
def test_a_batch_loses_what_it_loses_in_transformers(tmp_path: Path) -> None:
    theirs, pair = folder_with_weights(tmp_path / "marian", apart=True)
    data = tmp_path / "pairs.tsv"
    data.write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS * 3), "utf-8")
    begin = [f"task.init_from={tmp_path / 'marian'}", f"data.train={data}", *TINY]
    found = prepare(load_recipe_to_train("translate", begin), None, lambda line: None)
    (batch, *_), pad = found.valid_batches(), pair.source.raw.token_to_id("<pad>")
    loss = found.objective()(found.model().eval(), batch)
    labels = batch.target_out_BL.masked_fill(batch.target_out_BL == pad, -100)
    assert set(batch.target_in_BL[:, 0].tolist()) == {pad}
    assert labels.max(1).values.ge(0).all()
    expected = theirs(input_ids=batch.source_BM, attention_mask=batch.source_BM.ne(pad).long(), labels=labels).loss
    assert float(loss.total) / batch.tokens == pytest.approx(float(expected), abs=1e-4)


def test_a_run_of_two_vocabularies_goes_on_and_begins_another(tmp_path: Path) -> None:
    """The same command resumes it without the folder that it began with; another run may begin with it."""
    folder_with_weights(tmp_path / "marian", apart=True)
    run = tuned(tmp_path / "marian", tmp_path / "run")
    shutil.move(tmp_path / "marian", tmp_path / "gone")
    tuned(tmp_path / "marian", run, "train.steps=4")
    further: Any = open_run(tuned(run, tmp_path / "further"), "cpu")
    assert len(further.tokenizers.target) < len(further.tokenizers.source)
    assert start_of(str(run)).target_vocabulary == len(further.tokenizers.target)


def test_what_two_tokenizers_cannot_be(tmp_path: Path) -> None:
    folder = marian_folder(tmp_path / "marian")
    with_weights(folder, read_pair(folder))
    with pytest.raises(UserError, match=r"has two tokenizers, and task\.name=text_to_text reads and writes with one"):
        load_recipe_to_train("summarize", [f"task.init_from={folder}"])
    with pytest.raises(UserError, match=r"text\.joint=true cannot be set with task\.init_from"):
        load_recipe_to_train("translate", [f"task.init_from={folder}", "text.joint=true"])
    result = regard("import", folder, tmp_path / "run", "task.name=text_to_text")
    assert result.code == 2
    assert "has two tokenizers, and task.name=text_to_text reads and writes with one" in result.err

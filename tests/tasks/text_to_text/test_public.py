"""Fine-tuning of public checkpoints: a batch loses what it loses in transformers with `labels`, and outputs are its outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from tokenizers import models, pre_tokenizers, processors

from regard.commands.train import train_run
from regard.core.errors import UserError
from regard.data.batching.pairs import EncodedPairs, Ragged, make_batch
from regard.decode.config import DecodeConfig
from regard.objectives.seq2seq import Seq2SeqConfig, Seq2SeqLoss
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.recipe import Recipe
from regard.tasks.output_marks import pair_marks
from regard.tasks.registry import open_run
from regard.tasks.seq2seq_denoising.prepare import prepare as prepare_denoising
from regard.tasks.text_to_text.prepare import prepare
from regard.text.tokenizer import Tokenizer
from tests.families.public_folder import shaken
from tests.tasks.tiny_noise import TINY as NOISY
from tests.tasks.tiny_reports import ANIMALS, SEES, TINY, data
from tests.tasks.tiny_text import CPU, quiet, stories, write_stories

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

WORDS = ["the", *ANIMALS, *SEES, ".", *map(str, range(10))]
SPECIALS = {
    "t5": ["<pad>", "</s>", "<unk>", *(f"<extra_id_{n}>" for n in range(20))],
    "bart": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
    "mbart": ["<s>", "<pad>", "</s>", "<unk>", "en_XX", "fr_XX", "<mask>"],
    "mbart50": ["<s>", "<pad>", "</s>", "<unk>", "en_XX", "fr_XX", "<mask>"],
}
TEMPLATES = {"t5": "$A </s>", "bart": "<s> $A </s>", "mbart": "$A </s> en_XX", "mbart50": "en_XX $A </s>"}
LABELS = {"t5": ("", "</s>"), "bart": ("<s>", "</s>"), "mbart": ("", "</s> fr_XX"), "mbart50": ("fr_XX", "</s>")}
BEGIN = {"t5": "<pad>", "bart": "</s>", "mbart": "fr_XX", "mbart50": "</s>"}
KINDS = list(SPECIALS)
SIZES = dict(d_model=24, encoder_layers=1, decoder_layers=2, encoder_attention_heads=3, decoder_attention_heads=3)
SIZES |= dict(encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=40)
UNTOLD = ("model.", "text.", "decode.")


def tokenizer_of(kind: str) -> tokenizers.Tokenizer:
    """Words, with the special tokens and the template that checkpoints of this kind have."""
    pieces = [*SPECIALS[kind], *WORDS]
    raw = tokenizers.Tokenizer(models.WordLevel({piece: n for n, piece in enumerate(pieces)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.add_special_tokens(SPECIALS[kind])
    specials = [(name, n) for n, name in enumerate(SPECIALS[kind])]
    raw.post_processor = processors.TemplateProcessing(single=TEMPLATES[kind], special_tokens=specials)
    return raw


def folder_of(kind: str, path: Path) -> Any:
    """Write a random model of transformers and its tokenizer; its vocabulary has 5 rows that no token needs."""
    raw, torch_model = tokenizer_of(kind), {"t5": "T5", "bart": "Bart", "mbart": "MBart", "mbart50": "MBart"}[kind]
    one = raw.token_to_id
    ids = dict(pad_token_id=one("<pad>"), eos_token_id=one("</s>"), decoder_start_token_id=one(BEGIN[kind]))
    ids |= dict(bos_token_id=one("<s>")) if kind != "t5" else {}
    sizes = dict(d_model=24, d_kv=8, d_ff=40, num_layers=2, num_heads=3) if kind == "t5" else SIZES
    config = getattr(transformers, f"{torch_model}Config")(vocab_size=raw.get_vocab_size() + 5, **sizes, **ids)
    torch.manual_seed(1)
    theirs = shaken(getattr(transformers, f"{torch_model}ForConditionalGeneration")(config), 0.4)
    spare = [[n] for n in range(raw.get_vocab_size(), raw.get_vocab_size() + 5)]
    first = dict(forced_bos_token_id=one("fr_XX")) if kind == "mbart50" else {}
    first |= dict(forced_eos_token_id=one("</s>")) if kind != "t5" else {}
    theirs.generation_config = transformers.GenerationConfig(**ids, **first, max_length=20)
    theirs.save_pretrained(path)
    raw.save(str(path / "tokenizer.json"))
    theirs.generation_config.bad_words_ids = spare  # ids without a token, which we never write
    return theirs


def recipe_of(folder: Path, *settings: str) -> Recipe:
    plain = [setting for setting in TINY if not setting.startswith(UNTOLD)]
    begin = [f"task.init_from={folder}", f"data.train={data()}", *plain, "decode.search=greedy", "data.maximum_target=12"]
    return load_recipe_to_train("summarize", [*begin, "data.maximum_input=20", "train.clip=0", *settings])


def labels_of(kind: str, raw: tokenizers.Tokenizer, text: str) -> list[int]:
    before, after = (side.split() for side in LABELS[kind])
    return [raw.token_to_id(piece) for piece in (*before, *text.split(), *after)]


def padded(rows: list[list[int]], fill: int) -> torch.Tensor:
    most = max(map(len, rows))
    return torch.tensor([row + [fill] * (most - len(row)) for row in rows])


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_batch_loses_what_it_loses_in_transformers(kind: str, tmp_path: Path) -> None:
    theirs, raw = folder_of(kind, tmp_path / "public"), tokenizer_of(kind)
    found = prepare(recipe_of(tmp_path / "public"), None, quiet)
    inputs = ["the cat sees the dog 3", "the horse likes", "the bird hears the cat ."]
    outputs = ["the dog", "the horse . the cat 4", "bird"]
    sides = [Ragged(found.tokenizer.encode_batch(side)) for side in (inputs, outputs)]
    batch = make_batch(EncodedPairs(*sides, marks=found.valid.marks), np.arange(3))
    loss = Seq2SeqLoss(Seq2SeqConfig(smoothing=0.0))(found.model().eval(), batch)
    sources = [raw.encode(text).ids for text in inputs]
    labels = [labels_of(kind, raw, text) for text in outputs]
    assert batch.tokens == sum(map(len, labels))
    mask = padded([[1] * len(row) for row in sources], 0)
    expected = theirs(input_ids=padded(sources, raw.token_to_id("<pad>")), attention_mask=mask, labels=padded(labels, -100)).loss
    assert float(loss.total) / batch.tokens == pytest.approx(float(expected), abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_run_that_has_learned_nothing_writes_what_the_checkpoint_writes(kind: str, tmp_path: Path) -> None:
    theirs, raw = folder_of(kind, tmp_path / "public"), tokenizer_of(kind)
    recipe = recipe_of(tmp_path / "public", "train.learning_rate=1e-12", "train.steps=1", "train.warmup=0")
    with torch.enable_grad():
        train_run(recipe, tmp_path / "run", CPU, quiet)
    writer = open_run(tmp_path / "run", "cpu")
    texts = ["the cat sees the dog 3", "the horse likes", "the bird hears the cat ."]
    written = writer.write(texts)  # type: ignore[attr-defined]
    for text, (best,) in zip(texts, written):
        ids = theirs.generate(input_ids=torch.tensor([raw.encode(text).ids]), max_new_tokens=12, do_sample=False, num_beams=1)
        expected = ids[0, 1:].tolist()
        assert best.ids == (expected[:-1] if expected[-1] == raw.token_to_id("</s>") else expected)
    again = load_recipe_to_train("summarize", [f"task.init_from={tmp_path / 'public'}"], tmp_path / "run")
    further = recipe_of(tmp_path / "run")
    for one in (again, further):
        assert pair_marks(writer.tokenizer, one.decode) == pair_marks(writer.tokenizer, recipe.decode)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("kind", "noise"), [("t5", "span_corruption"), ("bart", "permutation+infilling")])
def test_denoising_goes_on_with_the_tokens_of_the_checkpoint(kind: str, noise: str, tmp_path: Path) -> None:
    folder_of(kind, tmp_path / "public")
    plain = [setting for setting in NOISY if not setting.startswith(UNTOLD)]
    where = write_stories(tmp_path / "stories.jsonl", stories(60))
    begin = [f"task.init_from={tmp_path / 'public'}", f"data.train={where}", f"objective.noise={noise}", *plain]
    recipe = load_recipe_to_train("t5", begin)
    found = prepare_denoising(recipe, None, quiet)
    (batch, *_), one = list(found.valid_batches().in_order()), found.tokenizer.raw.token_to_id
    start, end, pad = one(BEGIN[kind]), one("</s>"), one("<pad>")
    assert set(batch.target_in_BL[:, 0].tolist()) == {start}
    assert batch.source_BM.shape[1] <= 24
    assert batch.target_out_BL.shape[1] <= 24
    for row, length in zip(batch.target_out_BL.tolist(), batch.target_lengths_B.tolist()):
        assert row[length - 1] == end
        assert set(row[length:]) <= {pad}
    train_run(recipe, tmp_path / "run", CPU, quiet)
    assert isinstance(open_run(tmp_path / "run", "cpu")("the [MASK] sees"), str)  # type: ignore[operator]


def test_a_vocabulary_without_padding_is_refused() -> None:
    raw = tokenizers.Tokenizer(models.WordLevel({"</s>": 0, "a": 1, "b": 2}, unk_token="b"))
    raw.add_special_tokens(["</s>"])
    with pytest.raises(UserError, match="no padding token"):
        pair_marks(Tokenizer(raw), DecodeConfig())

"""Import and export of LLaMA, T5, BART and Marian: compared with transformers, and the text of trained weights."""

from __future__ import annotations

import json
import shutil
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, processors

from regard.commands.convert import export_run, import_public
from regard.core.errors import UserError
from regard.data.config import PairsConfig
from regard.interop.huggingface import check
from regard.runs.recipe import load_recipe
from regard.runs.task import TASKS
from regard.tasks.registry import open_run
from tests.families.public_folder import TOKENIZER, VOCABULARY, shaken
from tests.model.position.schemes import shared_data

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


def llama2c_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """Build a tokenizer of the pieces and scores that llama2.c keeps: byte-pair encoding with single bytes to fall back on."""
    content, at, pieces = path.read_bytes(), 4, list[tuple[str, float]]()
    while at < len(content):
        score, length = struct.unpack_from("<fi", content, at)
        pieces.append((content[at + 8 : at + 8 + length].decode().replace(" ", "▁"), score))
        at += 8 + length
    names = ["<unk>", "<s>", "</s>", *(piece.strip("\n") if "<" in piece else piece for piece, _ in pieces[3:])]
    ids = {name: i for i, name in enumerate(names)}
    ranked = sorted((-score, name) for name, (_, score) in zip(names, pieces) if len(name) > 1 and not name.startswith("<"))
    merges = [(name[:n], name[n:]) for _, name in ranked for n in range(1, len(name)) if name[:n] in ids and name[n:] in ids]
    raw = tokenizers.Tokenizer(models.BPE(ids, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    raw.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    raw.add_special_tokens(["<unk>", "<s>", "</s>"])
    raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return raw


def test_stories260k_writes_its_published_text_word_for_word(tmp_path: Path) -> None:
    folder = shared_data("weights/stories260K")
    source = tmp_path / "source"
    shutil.copytree(folder / "hf", source)
    llama2c_tokenizer(folder / "tok512.bin").save(str(source / "tokenizer.json"))
    said = list[str]()
    import_public(str(source), tmp_path / "run", said.append, check=True)
    (line,) = (line for line in said if "largest difference" in line)
    assert float(line.rsplit(" ", 1)[1]) < 1e-4
    expected = json.loads((folder / "greedy.json").read_text())["greedy_ids"]
    length = len(expected) - 1  # the first is <s>
    predictor: Any = open_run(tmp_path / "run", assignments=["decode.search=greedy", f"decode.maximum_length={length}"])
    (found,) = predictor.write([""])[0]
    assert found.ids == expected[1:]
    assert found.text.strip() == (folder / "greedy.txt").read_text().strip()


def folder_of(path: Path, kind: str) -> Path:
    torch.manual_seed(0)
    ids = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=0)
    if kind == "t5":
        config = transformers.T5Config(vocab_size=VOCABULARY, d_model=24, d_kv=8, d_ff=40, num_layers=1, num_heads=3, **ids)
        theirs: Any = transformers.T5ForConditionalGeneration(config)
    else:
        sizes = dict(encoder_layers=1, decoder_layers=1, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=80)
        sizes |= dict(vocab_size=VOCABULARY, d_model=24, encoder_attention_heads=3, decoder_attention_heads=3)
        name, head = {"bart": ("Bart", "ForConditionalGeneration"), "marian": ("Marian", "MTModel")}[kind]
        theirs = getattr(transformers, f"{name}{head}")(getattr(transformers, f"{name}Config")(**sizes, **ids))
    theirs = shaken(theirs, 0.2)
    theirs.generation_config = transformers.GenerationConfig(**ids, num_beams=3, max_length=20, suppress_tokens=[0, 1])
    theirs.save_pretrained(path)
    (path / "tokenizer.json").write_text(TOKENIZER)
    return path


@pytest.mark.parametrize("kind", ["t5", "bart", "marian"])
def test_a_seq2seq_folder_becomes_a_run_and_a_folder_again(kind: str, tmp_path: Path) -> None:
    said = list[str]()
    import_public(str(folder_of(tmp_path / "source", kind)), tmp_path / "run", said.append, check=True)
    assert any("largest difference" in line for line in said)
    run: Any = open_run(tmp_path / "run")
    texts = ["the animal", "because it was too tired"]
    written = run(texts)
    assert written == open_run(tmp_path / "source")(texts)  # type: ignore[operator]
    assert run.subject(texts[0]).sides["decoder"].tokens[0] == "<pad>"
    export_run(tmp_path / "run", tmp_path / "out", "hf", said.append)
    assert open_run(tmp_path / "out")(texts) == written  # type: ignore[operator]
    again = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    assert (again.generation_config.num_beams, again.generation_config.decoder_start_token_id) == (3, 0)


def test_an_export_says_that_beams_are_ranked_by_another_formula(tmp_path: Path) -> None:
    said = list[str]()
    settings = ["decode.length_formula=gnmt", "decode.length_penalty=0.6"]
    import_public(str(folder_of(tmp_path / "source", "bart")), tmp_path / "run", said.append, settings)
    export_run(tmp_path / "run", tmp_path / "out", "hf", said.append)
    assert any("another formula" in line for line in said)


def test_a_model_that_differs_is_refused_with_check_and_said_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = str(folder_of(tmp_path / "source", "t5"))
    monkeypatch.setattr(check, "largest_difference", lambda *_: 0.5)
    with pytest.raises(UserError, match=r"differs from transformers by up to 0\.5"):
        import_public(source, tmp_path / "run", print, check=True)
    said = list[str]()
    import_public(source, tmp_path / "run", said.append)
    assert any("5.0e-01" in line for line in said)
    monkeypatch.setattr(check, "installed", lambda: False)
    with pytest.raises(UserError, match="not installed"):
        import_public(source, tmp_path / "other", print, check=True)
    import_public(source, tmp_path / "other", said.append)
    assert "not installed" in said[-2]


def test_a_token_that_the_vocabulary_does_not_have_is_refused(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "source", "t5")
    with pytest.raises(UserError, match=r"decode\.first='fr_XX' is no token of this vocabulary"):
        open_run(source, assignments=["decode.first=fr_XX"])("the animal")  # type: ignore[operator]


def test_a_translator_that_begins_with_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    recipe = load_recipe("translate", [])
    begun = replace(recipe, task=replace(recipe.task, init_from=str(tmp_path / "nowhere")))
    with pytest.raises(UserError, match="There is no folder"):
        TASKS["translation"].prepare(begun, None, print)


def test_pairs_to_train_on_are_asked_for_where_there_are_none() -> None:
    with pytest.raises(UserError, match=r"data\.train is empty"):
        PairsConfig().check_complete()
    with pytest.raises(UserError, match=r"data\.valid is empty"):
        PairsConfig(train=("a,b",))

"""generation_config.json: what it says is what is written, compared with transformers; what has no counterpart is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers

from regard.core.errors import UserError
from regard.interop.huggingface.generation import read_generation, write_generation
from regard.tasks.registry import open_run
from regard.text.tokenizer import Tokenizer
from tests.families.public_folder import TOKENIZER, VOCABULARY, change_tensors, shaken

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

PAD, SOS, EOS, UNK = range(4)
TEXTS = [
    "the animal",
    "because it was too tired",
    "a street",
    "did not cross",
    "two  spaces",
    "tired",
    "café",
    "the the the",
    "x",
    "it",
]
T5 = dict(vocab_size=VOCABULARY, d_model=24, d_kv=8, d_ff=40, num_layers=2, num_heads=3)
BART = dict(vocab_size=VOCABULARY, d_model=24, encoder_layers=1, decoder_layers=2, encoder_attention_heads=3)
BART |= dict(decoder_attention_heads=3, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=90)
IDS = dict(pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD, bos_token_id=SOS, forced_eos_token_id=None)
WORDS = [[i] for i in range(4, 250, 3)]
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": dict(max_length=40),
    "beam": dict(num_beams=4, max_length=40),
    "beam, long": dict(num_beams=4, length_penalty=2.0, max_length=40),
    "beam, length ignored": dict(num_beams=4, length_penalty=0.0, max_length=40),
    "beam, early": dict(num_beams=4, early_stopping=True, max_length=40),
    "beam, never early": dict(num_beams=4, early_stopping="never", length_penalty=1.5, max_length=30),
    "forced first and last": dict(num_beams=3, forced_bos_token_id=77, forced_eos_token_id=EOS, max_length=12),
    "no repeats": dict(num_beams=4, no_repeat_ngram_size=2, min_length=9, max_length=30),
    "greedy, no repeats": dict(no_repeat_ngram_size=3, max_length=30),
    "never these": dict(
        num_beams=4, bad_words_ids=WORDS, suppress_tokens=[PAD, SOS, 5, 8], begin_suppress_tokens=[9, EOS], max_length=20
    ),
    "several ends": dict(num_beams=4, eos_token_id=[EOS, 40, 41], max_length=20),
}


def folder_of(path: Path, model: Any, generation: dict[str, Any]) -> Any:
    """Write a random model with a tokenizer that ends each text; its end is likelier than chance."""
    for name, parameter in model.named_parameters():
        if name.endswith("shared.weight"):
            parameter.data[EOS] += 0.15
    model.generation_config = transformers.GenerationConfig(**(IDS | dict(suppress_tokens=[PAD, SOS]) | generation))
    model.save_pretrained(path)
    raw = tokenizers.Tokenizer.from_str(TOKENIZER)
    raw.post_processor = tokenizers.processors.TemplateProcessing(single="$A <eos>", special_tokens=[("<eos>", EOS)])
    raw.save(str(path / "tokenizer.json"))
    return raw


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("family", ["t5", "bart"])
@torch.no_grad()
def test_a_seq2seq_folder_writes_what_it_writes_in_transformers(family: str, search: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    if family == "t5":
        theirs = transformers.T5ForConditionalGeneration(transformers.T5Config(**T5, **IDS))
    else:
        theirs = transformers.BartForConditionalGeneration(transformers.BartConfig(**BART, **IDS))
    raw = folder_of(tmp_path, shaken(theirs, 0.2), SEARCHES[search])
    ours = open_run(tmp_path)
    assert ours.decode.search == ("beam" if "num_beams" in SEARCHES[search] else "greedy")
    found = [best[0].ids for best in ours.translate(TEXTS)]  # type: ignore[attr-defined]
    ends = SEARCHES[search].get("eos_token_id", [EOS])
    for text, ids in zip(TEXTS, found):
        written = theirs.generate(input_ids=torch.tensor([raw.encode(text).ids]))[0, 1:].tolist()
        while written and written[-1] == PAD:
            written.pop()
        assert ids == (written[:-1] if written and written[-1] in ends else written), text


MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "t5 1.1": ("T5", T5 | dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    "mt5": ("MT5", T5 | dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    "mbart": ("MBart", BART | dict(scale_embedding=True)),
}


@pytest.mark.parametrize("search", ["beam", "beam, early"])
@pytest.mark.parametrize("kind", MORE)
@torch.no_grad()
def test_beams_of_their_kin_in_one_padded_batch(kind: str, search: str, tmp_path: Path) -> None:
    """4 hypotheses of 10 texts in one batch there and here, and three of them alone."""
    name, keys = MORE[kind]
    torch.manual_seed(1)
    model = getattr(transformers, f"{name}ForConditionalGeneration")
    theirs = shaken(model(getattr(transformers, f"{name}Config")(**keys, **IDS)), 0.2)
    raw = folder_of(tmp_path, theirs, SEARCHES[search])
    if "t5" in kind:  # with an output layer of its own, which transformers 5 ties when it saves
        change_tensors(tmp_path, lambda tensors: tensors.update({"lm_head.weight": 0.5 * torch.randn(VOCABULARY, 24)}))
    theirs, ours = model.from_pretrained(tmp_path).eval(), open_run(tmp_path)
    found = [best[0].ids for best in ours.translate(TEXTS)]  # type: ignore[attr-defined]
    assert [ours.translate([TEXTS[n]])[0][0].ids for n in (0, 1, 8)] == [found[n] for n in (0, 1, 8)]  # type: ignore[attr-defined]
    rows = [raw.encode(text).ids for text in TEXTS]
    most = max(map(len, rows))
    mask = torch.tensor([[1] * len(row) + [0] * (most - len(row)) for row in rows])
    source = torch.tensor([row + [PAD] * (most - len(row)) for row in rows])
    for written, ids in zip(theirs.generate(input_ids=source, attention_mask=mask)[:, 1:].tolist(), found):
        while written and written[-1] == PAD:
            written.pop()
        assert ids == (written[:-1] if written and written[-1] == EOS else written)
    assert len({tuple(ids) for ids in found}) > 5


def small_llama(**keys: Any) -> Any:
    sizes = dict(vocab_size=VOCABULARY, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3)
    torch.manual_seed(2)
    return shaken(
        transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, bos_token_id=SOS, eos_token_id=EOS, **keys)), 0.2
    )


@pytest.mark.parametrize("search", [dict(do_sample=False), dict(num_beams=4, length_penalty=1.0), dict(no_repeat_ngram_size=2)])
def test_a_decoder_begins_where_its_tokenizer_does(search: dict[str, Any], tmp_path: Path) -> None:
    theirs, plain = small_llama(), dict(do_sample=False) | search
    folder_of(tmp_path, theirs, plain | dict(max_new_tokens=16, decoder_start_token_id=None))
    raw = tokenizers.Tokenizer.from_str(TOKENIZER)
    raw.post_processor = tokenizers.processors.TemplateProcessing(single="<sos> $A", special_tokens=[("<sos>", SOS)])
    raw.save(str(tmp_path / "tokenizer.json"))
    ours = open_run(tmp_path)
    assert ours.decode.start == "<sos>"
    specials = [[i] for i in (PAD, SOS, UNK)]  # which are no text, so that we never write them
    for text in TEXTS[:4]:
        prompt = torch.tensor([raw.encode(text).ids])
        written = theirs.generate(input_ids=prompt, bad_words_ids=specials)[0, prompt.shape[1] :].tolist()
        (found,) = ours.write([text])[0]  # type: ignore[attr-defined]
        assert found.ids == [i for i in written if i not in (EOS, PAD)]


def generation_of(tmp_path: Path, given: dict[str, Any], reads: bool = True) -> Any:
    (tmp_path / "generation_config.json").write_text(json.dumps(given))
    return read_generation(tmp_path, {}, Tokenizer(tokenizers.Tokenizer.from_str(TOKENIZER)), reads_a_source=reads)


def test_names_of_tokens_stand_for_their_ids(tmp_path: Path) -> None:
    found = generation_of(tmp_path, dict(IDS, num_beams=5, length_penalty=0.8, max_length=50, forced_bos_token_id=UNK))
    assert found.settings == dict(
        end=["<eos>"], start="<pad>", first="<unk>", search="beam", beam=5, length_penalty=0.8, length_formula="power",
        early_stopping="likely", rank_cut=True, maximum_length=49,
    )  # fmt: skip
    assert not found.notes


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (dict(num_beam_groups=2), "num_beam_groups=2"),
        (dict(typical_p=0.9), "typical_p=0.9"),
        (dict(encoder_no_repeat_ngram_size=3), "encoder_no_repeat_ngram_size=3"),
        (dict(num_beams=2, repetition_penalty=1.2), "repetition_penalty=1.2 with beams"),
        (dict(num_beams=2, length_penalty=-1.0), "length_penalty=-1"),
        (dict(num_beams=2, do_sample=True), "within 2 beams"),
        (dict(bad_words_ids=[[7, 8], [9]]), "bad_words_ids"),
        (dict(renormalize_logits=True), "renormalize_logits"),
    ],
)
def test_what_has_no_counterpart_is_said_in_one_sentence(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    (note,) = generation_of(tmp_path, given).notes
    assert said in note
    assert "\n" not in note


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (dict(eos_token_id=5000), "no token"),
        (dict(decoder_start_token_id="x"), "no token"),
        (dict(num_beams="many"), "a number"),
        (dict(num_beams=2, early_stopping="soon"), "early_stopping"),
        (dict(bad_words_ids=[3]), "lists of ids"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        generation_of(tmp_path, given)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    given = dict(IDS, num_beams=5, length_penalty=0.8, early_stopping=True, max_length=50, forced_bos_token_id=UNK)
    found = generation_of(tmp_path, given | dict(no_repeat_ngram_size=3, suppress_tokens=[9]))
    from regard.decode.config import DecodeConfig

    tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(TOKENIZER))
    again = write_generation(DecodeConfig(**found.settings), tokenizer, reads_a_source=True)
    assert generation_of(tmp_path, again).settings == found.settings

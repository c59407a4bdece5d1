"""The folders of CTranslate2 models: what the engine computes and writes with them, beside ours and beside transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.families import build_model
from regard.families.base import Heads, Sizes
from regard.interop.ctranslate2.models import pieces, write_folder
from regard.interop.exported import MOST_DIFFERENCE, ExportedModel
from regard.interop.huggingface import read_public
from regard.text.tokenizer import Tokenizer
from tests.decode.searches import beam_search, greedy
from tests.interop.ctranslate2.subjects import READERS, TRANSLATORS, WRITERS, subject, subject_of, tokenizer, written
from tests.interop.huggingface.test_seq2seq import PAD, START, peer

LENGTHS = (7, 1, 12, 3)
ROWS = len(tokenizer()) + 3  # of the tables of these models
ON_CPU: dict[str, Any] = dict(device="cpu", compute_type="float32", inter_threads=1, intra_threads=1)


def ids(seed: int, lengths: tuple[int, ...] = LENGTHS) -> list[list[int]]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(4, len(tokenizer()), (length,), generator=draw).tolist() for length in lengths]


def batch(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    tensors = [torch.tensor(row) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True), torch.tensor([len(row) for row in rows])


def names(rows: list[list[int]]) -> list[list[str]]:
    return [[pieces(tokenizer(), ROWS)[i] for i in row] for row in rows]


def numbers(rows: list[list[str]]) -> list[list[int]]:
    return [[pieces(tokenizer(), ROWS).index(piece) for piece in row] for row in rows]


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_translator_scores_and_writes_as_ours(name: str, tmp_path: Path) -> None:
    """Log-probabilities of given targets; outputs of greedy and of beam search, of sources of different lengths at once."""
    one = subject(name)
    opened = ctranslate2.Translator(str(written(one, tmp_path / "out")), **ON_CPU)
    sources, targets = ids(1), ids(2, (4, 9, 2, 6))
    source_BM, lengths_B = batch(sources)
    with torch.no_grad():
        logp_BLV = one.model(source_BM, lengths_B, batch([[one.start, *row] for row in targets])[0]).log_softmax(-1)
        encoded = one.model.start(source_BM, lengths_B)
    for row_LV, target, scored in zip(logp_BLV, targets, opened.score_batch(names(sources), names(targets))):
        expected = [float(row_LV[n, i]) for n, i in enumerate([*target, one.end])]  # type: ignore[list-item]
        np.testing.assert_allclose(scored.log_probs, expected, atol=MOST_DIFFERENCE)
    limit: dict[str, Any] = dict(limits=[9] * len(sources), sos=one.start, eos=one.end)
    lengths = dict(min_decoding_length=0, max_decoding_length=9)
    ours = [list(found.ids) for found in greedy(encoded, **limit)]
    found = opened.translate_batch(names(sources), beam_size=1, **lengths)
    assert numbers([one.hypotheses[0] for one in found]) == ours
    assert len({i for row in ours for i in row}) > 2  # a search that has something to choose
    wide = [list(rows[0].ids) for rows in beam_search(encoded, beam=3, alpha=0.0, **limit)]
    found = opened.translate_batch(names(sources), beam_size=3, length_penalty=0, **lengths)
    assert numbers([one.hypotheses[0] for one in found]) == wide


@pytest.mark.parametrize("name", WRITERS)
def test_a_decoder_scores_and_writes_as_ours(name: str, tmp_path: Path) -> None:
    one = subject(name)
    opened = ctranslate2.Generator(str(written(one, tmp_path / "out")), **ON_CPU)
    rows = ids(3)
    ids_BL, lengths_B = batch(rows)
    said = opened.forward_batch(view(ids_BL), view(lengths_B), return_log_probs=True)
    with torch.no_grad():
        expected_BLV = one.model(ids_BL).log_softmax(-1)
    for length, found_LV, expected_LV in zip(lengths_B.tolist(), np.array(said), expected_BLV.numpy()):
        np.testing.assert_allclose(found_LV[:length], expected_LV[:length], atol=MOST_DIFFERENCE)
    for prompt in (row for row in rows if len(row) > 1):
        found = opened.generate_batch(names([prompt]), max_length=6, include_prompt_in_result=False)
        with torch.no_grad():
            encoded = one.model.start(torch.tensor([prompt[:-1]]), torch.tensor([len(prompt) - 1]))
        ours = greedy(encoded, limits=[6], sos=prompt[-1], eos=one.end)
        assert numbers([found[0].sequences[0]]) == [list(ours[0].ids)]


@pytest.mark.parametrize("name", READERS)
def test_an_encoder_gives_our_vectors(name: str, tmp_path: Path) -> None:
    one = subject(name)
    opened = ctranslate2.Encoder(str(written(one, tmp_path / "out")), **ON_CPU)
    ids_BL, lengths_B = batch(ids(4))
    said = opened.forward_batch(view(ids_BL), view(lengths_B))
    with torch.no_grad():
        expected_BLD = one.model.hidden(ids_BL, lengths_B)
    for length, found_LD, expected_LD in zip(lengths_B.tolist(), np.array(said.last_hidden_state), expected_BLD.numpy()):
        np.testing.assert_allclose(found_LD[:length], expected_LD[:length], atol=MOST_DIFFERENCE)
    if name != "encoder":
        with torch.no_grad():
            expected_BD = one.model.pooler(expected_BLD, lengths_B)
        np.testing.assert_allclose(np.array(said.pooler_output), expected_BD.numpy(), atol=MOST_DIFFERENCE)


def view(numbers: Tensor) -> Any:
    return ctranslate2.StorageView.from_array(numbers.int().numpy())


@pytest.mark.parametrize("kind", ["t5 1.0", "t5 1.1", "mt5", "bart", "mbart", "marian", "marian, two vocabularies"])
def test_public_models_score_as_transformers_does(kind: str, tmp_path: Path) -> None:
    """T5 1.1 has an output layer of its own and no scale before it, and BART has no `normalize_before` in its config."""
    theirs = peer(kind, tmp_path / "theirs")
    public = read_public(tmp_path / "theirs")
    model: Any = build_model(public.config, vocabulary=public.vocabulary, target_vocabulary=public.target_vocabulary)
    model.load_state_dict(public.weights)
    read, target = plain_tokenizer(public.vocabulary), plain_tokenizer(public.target_vocabulary or public.vocabulary)
    one = ExportedModel("theirs", model.eval(), read, target, start=START, end=1, pad=PAD)
    opened = ctranslate2.Translator(str(written(one, tmp_path / "out")), **ON_CPU)
    sources, targets = [[5, 6, 7, 8], [9, 10, 11, 30]], [[12, 5, 7], [6, 80, 22]]
    decoder_in = torch.tensor([[START, *row] for row in targets])
    with torch.no_grad():
        logits = theirs(input_ids=torch.tensor(sources), decoder_input_ids=decoder_in).logits
    given_pieces = [[[f"w{i}" for i in row] for row in rows] for rows in (sources, targets)]
    for row_LV, given, scored in zip(logits.log_softmax(-1), targets, opened.score_batch(*given_pieces)):
        expected = [float(row_LV[n, i]) for n, i in enumerate([*given, 1])]
        np.testing.assert_allclose(scored.log_probs, expected, atol=MOST_DIFFERENCE)
    assert logits.std() > 0.5


def plain_tokenizer(size: int) -> Tokenizer:
    import tokenizers

    names = ["<pad>", "</s>", "<s>", "<start>", "<unk>", *(f"w{n}" for n in range(5, size))]
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel({name: n for n, name in enumerate(names)}, unk_token="<unk>"))
    raw.add_special_tokens(names[:5])
    return Tokenizer(raw)


def test_heads_lie_beside_the_model(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    with torch.no_grad():
        write_folder(tmp_path, subject("bert"), {"classes.project.weight": torch.ones(3, 32)}, "int8")
    assert load_file(tmp_path / "heads.safetensors")["classes.project.weight"].tolist() == torch.ones(3, 32).tolist()


def test_rows_without_a_piece_have_names(tmp_path: Path) -> None:
    folder = written(subject("gpt2"), tmp_path / "out")
    found, size = json.loads((folder / "vocabulary.json").read_text()), len(tokenizer())
    assert found[:4] == ["<pad>", "<sos>", "<eos>", "<unk>"]
    assert found[size:] == [f"<unused_{n}>" for n in range(size, size + 3)]
    assert len({*found}) == len(found)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("transformer", dict(mixer="additive"), "model.mixer=additive"),
    ("transformer", dict(visibility="window(3)"), r"model.visibility=window\(3\)"),
    ("transformer", dict(position="alibi"), "model.position=alibi in an encoder"),
    ("transformer", dict(position="transformer-xl"), "model.position=transformer-xl"),
    ("transformer", dict(join="concat", position_width=8, tie="none"), "model.join=concat"),
    ("gpt", dict(mixer="conv"), "model.mixer=conv"),
    ("gpt", dict(memory=4, position="relative"), "model.memory"),
    ("gpt", dict(position="transformer-xl"), "model.position=transformer-xl"),
    ("llama", dict(visibility="window(5)"), r"model.visibility=window\(5\)"),
    ("bert", dict(embedding_width=16), "model.embedding_width"),
    ("bert", dict(visibility="strided(4)"), "model.visibility"),
    ("encoder", dict(columns=4), "model.columns"),
    ("recurrent", dict(), "model.family=recurrent"),
    ("vit", dict(image_size=12, patch=4), "model.family=vit"),
    ("electra", dict(generator_width=8), "model.family=electra"),
]


@pytest.mark.parametrize(("family", "choices", "said"), BAD)
def test_parts_that_the_engine_lacks_are_refused(family: str, choices: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"CTranslate2 does not compute .*{said}"):
        written(parts(family, choices), tmp_path / "out")
    assert not (tmp_path / "out" / "model.bin").exists()


def parts(family: str, choices: dict[str, Any]) -> ExportedModel:
    from regard.families import FAMILIES
    from tests.interop.ctranslate2.subjects import SMALL

    keys = set(FAMILIES[family].config.__dataclass_fields__)
    if keys.issuperset(SMALL):
        return subject_of(family, choices)
    config = FAMILIES[family].config(**{key: value for key, value in SMALL.items() if key in keys} | choices)
    model = FAMILIES[family].build(config, Sizes(vocabulary=40, heads=Heads(words=False, classes=3)), 0)
    return ExportedModel("runs/tiny", model, tokenizer(), start=1, end=2)

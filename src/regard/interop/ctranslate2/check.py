"""Run a written CTranslate2 model beside the one that it was made from, on inputs of random tokens and different lengths.

In float32, float16 and bfloat16 the numbers are compared: a translator's log-probabilities of random targets, a decoder's
log-probabilities of every word at every place, an encoder's vectors. Rounded to int8, numbers differ by what rounding costs, so
decisions are compared: the share of equal next words, and the cosine of vectors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.interop.ctranslate2.models import kind_of, pieces, pooled_by
from regard.interop.exported import (
    MOST_DIFFERENCE,
    ExportedModel,
    Measure,
    batches,
    difference,
    largest,
    padded,
    random_rows,
    room_of,
)

# By --quantization. Rounding to 8 bits in bfloat16 changes up to 1 in 256 of each number, in float16 1 in 2,048.
MOST = {"float32": MOST_DIFFERENCE, "float16": 0.05, "bfloat16": 0.3}
SAME_WORDS = 0.9  # of the next words of an int8 model
LEAST_COSINE = 0.98  # of the vectors of an int8 model


@torch.no_grad()
def compare(engine: Any, folder: Path, subject: ExportedModel, quantization: str) -> list[Measure]:
    """Return how far `folder` is from the model; `engine` is the package ctranslate2."""
    opened = {"device": "cpu", "compute_type": "default" if quantization.startswith("int8") else "float32"}
    match kind_of(subject.model).needs:
        case "seq2seq":
            return _translator(engine.Translator(str(folder), **opened), subject, quantization)
        case "causal_lm":
            return _generator(engine, engine.Generator(str(folder), **opened), subject, quantization)
        case _:
            return _encoder(engine, engine.Encoder(str(folder), **opened), subject, quantization)


def _translator(opened: Any, subject: ExportedModel, quantization: str) -> list[Measure]:
    model, differences, same = subject.model, list[float](), list[bool]()
    read = pieces(subject.tokenizer, model.source.tokens.num_embeddings)  # type: ignore[arg-type]
    written = pieces(subject.written, model.target.tokens.num_embeddings)  # type: ignore[arg-type]
    barred = {subject.start, subject.pad} | ({subject.end} if subject.end is not None else set())
    sources = random_rows(len(read), {subject.pad}, room_of(model.config), seed=1)
    targets = random_rows(len(written), barred, max(1, room_of(model.config) - 1), seed=2)[::-1]
    for some, after in batches(sources, targets):
        source_BM, lengths_B = padded(some, subject.pad)
        shown_BL, _ = padded([[subject.start, *row] for row in after], subject.pad)
        logp_BLV = model(source_BM, lengths_B, shown_BL).log_softmax(-1)
        given = [[read[i] for i in row] for row in some], [[written[i] for i in row] for row in after]
        if quantization.startswith("int8"):
            same += _same_next_words(opened, given, logp_BLV, after, written, subject)
            continue
        for row_LV, ids, scored in zip(logp_BLV, after, opened.score_batch(*given)):
            expected_L = row_LV[torch.arange(len(ids)), torch.tensor(ids)]
            differences.append(difference(scored.log_probs[: len(ids)], expected_L))
    return [_next_words(same) if same else _difference("log-probabilities", differences, quantization)]


def _same_next_words(
    opened: Any, given: tuple[Any, Any], logp_BLV: Tensor, after: list[list[int]], written: list[str], subject: ExportedModel
) -> list[bool]:
    """Return whether each input is continued by the same word, where it is not the end of the text."""
    logp_BLV = logp_BLV.clone()
    logp_BLV[:, :, [i for i, piece in enumerate(written) if i == subject.end]] = -torch.inf
    found = opened.translate_batch(
        given[0],
        target_prefix=given[1],
        beam_size=1,
        min_decoding_length=max(map(len, after)) + 1,
        max_decoding_length=max(map(len, after)) + 1,
    )
    best = [int(row_LV[len(ids)].argmax()) for row_LV, ids in zip(logp_BLV, after)]
    return [result.hypotheses[0][len(ids)] == written[i] for result, ids, i in zip(found, after, best)]


def _generator(engine: Any, opened: Any, subject: ExportedModel, quantization: str) -> list[Measure]:
    model, differences, same = subject.model, list[float](), list[bool]()
    rows = random_rows(model.embed.tokens.num_embeddings, {subject.pad}, room_of(model.config), seed=1)
    for (some,) in batches(rows):
        ids_BL, lengths_B = padded(some, subject.pad)
        expected_BLV = model(ids_BL).log_softmax(-1)
        said = opened.forward_batch(_view(engine, ids_BL), _view(engine, lengths_B), return_log_probs=True)
        found_BLV = torch.from_numpy(np.array(said))
        for length, found_LV, expected_LV in zip(lengths_B.tolist(), found_BLV, expected_BLV):
            differences.append(difference(found_LV[:length], expected_LV[:length]))
            same += (found_LV.argmax(-1) == expected_LV.argmax(-1))[:length].tolist()
    if quantization.startswith("int8"):
        return [_next_words(same)]
    return [_difference("log-probabilities", differences, quantization)]


def _encoder(engine: Any, opened: Any, subject: ExportedModel, quantization: str) -> list[Measure]:
    model, differences, cosines = subject.model, list[float](), list[Tensor]()
    rows = random_rows(model.embed.tokens.num_embeddings, {subject.pad}, room_of(model.config), seed=1)
    segmented = getattr(model.embed, "segments", None) is not None and len(model.embed.segments.weight) > 1
    for (some,) in batches(rows):
        ids_BL, lengths_B = padded(some, subject.pad)
        second_BL = (torch.arange(ids_BL.shape[1]) >= lengths_B[:, None] // 2).int() * segmented
        hidden_BLD = model.hidden(ids_BL, lengths_B, second_BL if segmented else None)
        more = {"token_type_ids": second_BL.tolist()} if segmented else {}
        said = opened.forward_batch(_view(engine, ids_BL), _view(engine, lengths_B), **more)
        pairs = [(torch.from_numpy(np.array(said.last_hidden_state)), hidden_BLD)]
        if pooled_by(model) is not None:
            pairs.append((torch.from_numpy(np.array(said.pooler_output))[:, None], model.pooler(hidden_BLD, lengths_B)[:, None]))
        for found_BLD, expected_BLD in pairs:
            for length, found_LD, expected_LD in zip(lengths_B.tolist(), found_BLD, expected_BLD):
                differences.append(difference(found_LD[:length], expected_LD[:length]))
                cosines.append(torch.cosine_similarity(found_LD[:length], expected_LD[:length], dim=-1).min())
    if quantization.startswith("int8"):
        return [Measure("smallest cosine of two vectors", float(torch.stack(cosines).min()), LEAST_COSINE, agreement=True)]
    return [_difference("vectors", differences, quantization)]


def _view(engine: Any, numbers: Tensor) -> Any:
    return engine.StorageView.from_array(numbers.int().numpy())


def _difference(what: str, differences: list[float], quantization: str) -> Measure:
    return Measure(f"largest difference of {what}", largest(differences), MOST[quantization])


def _next_words(same: list[bool]) -> Measure:
    return Measure("equal next words", sum(same) / len(same), SAME_WORDS, agreement=True)

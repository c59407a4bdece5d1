"""CTranslate2 with folders that transformers wrote, converted by CTranslate2's own loaders; tokens are named by their numbers.

Two of its loaders need help where transformers 5 is installed: a BartConfig no longer says `normalize_before`, and T5 1.1, whose
output layer is its own, is scaled as if it were tied. So BART is told here, and of T5 version 1.0 is compared.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ctranslate2
import torch
from ctranslate2.converters.transformers import _MODEL_LOADERS

from benchmarks.peers import public

CPU = torch.device("cpu")
Ids = list[list[int]]


def convert(folder: Path, to: Path, quantization: str | None) -> tuple[list[str], bool]:
    """Write the model of a folder in CTranslate2's format; return the names of its tokens, and whether it has an encoder."""
    model = public.theirs(folder, CPU)
    config = model.config
    if config.model_type == "t5" and not config.scale_decoder_outputs:
        raise ValueError("CTranslate2 4.8.4 scales the output of T5 1.1 as if its layer were tied; compare T5 1.0")
    if config.model_type == "bart":
        config.normalize_before, config.normalize_embedding = False, True
    loader = _MODEL_LOADERS[type(config).__name__]
    with torch.no_grad():
        spec = loader.get_model_spec(model)
    dropped = config.model_type == "marian"  # the loader takes the last token, padding, out of the vocabulary
    names = [f"t{number}" for number in range(config.vocab_size - dropped)]
    loader.set_vocabulary(spec, names)
    spec.config.unk_token, spec.config.eos_token = names[0], names[config.eos_token_id]
    if config.is_encoder_decoder:
        start = config.eos_token_id if dropped else config.decoder_start_token_id  # of Marian any: a zero vector is read
        spec.config.bos_token, spec.config.decoder_start_token = names[start], names[start]
    else:
        spec.config.bos_token, spec.config.layer_norm_epsilon = names[config.bos_token_id], config.rms_norm_eps
    spec.validate()
    spec.optimize(quantization=quantization)
    to.mkdir()
    spec.save(str(to))
    return names, bool(config.is_encoder_decoder)


def generator(folder: Path, kind: str, threads: int) -> Callable[[tuple[str, Any]], Any]:
    """Convert a folder; return what answers ("write", (ids, beam, tokens)) by texts and ("score", (ids, texts)) by log-probs."""
    kept = tempfile.TemporaryDirectory()  # as long as what answers
    written = Path(kept.name) / "model"
    names, reads = convert(folder, written, None if kind == "float32" else kind)
    opened = ctranslate2.Translator if reads else ctranslate2.Generator
    made = opened(str(written), device="cpu", intra_threads=threads, inter_threads=1, compute_type=kind)
    ids = {name: number for number, name in enumerate(names)}

    def texts(given: Ids) -> list[list[str]]:
        return [[names[one] for one in row] for row in given]

    def answer(asked: tuple[str, Any]) -> Any:
        what, (prompts, *rest) = asked
        if what == "score":
            given = [texts(prompts), texts(rest[0])]
            found = made.score_batch(*(given if reads else [[a + b for a, b in zip(*given)]]))
            return [one.log_probs for one in found]
        beam, tokens = rest
        if reads:
            alike: dict[str, Any] = dict(min_decoding_length=tokens, max_decoding_length=tokens, length_penalty=0)
            results = made.translate_batch(texts(prompts), beam_size=beam, **alike)
            return [[ids[token] for token in result.hypotheses[0]] for result in results]
        alike = dict(min_length=tokens, max_length=tokens, sampling_topk=1, include_prompt_in_result=False)
        results = made.generate_batch(texts(prompts), beam_size=beam, **alike)
        return [result.sequences_ids[0] for result in results]

    answer.kept = kept  # type: ignore[attr-defined]
    return answer

"""Beam search with the same Transformer-base weights: ours, Hugging Face's Marian and, on a CPU, CTranslate2 and JoeyNMT.

Random weights, 24 source tokens, 32 output tokens forced, beam 4: every system does the same work. Before any clock runs, all
must find the same tokens in float32; on a GPU bf16 weights are timed then. JoeyNMT keeps no keys and values: each of its steps
reads all earlier tokens again.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.measure import Row, alternate, row, versions, write
from benchmarks.peers import joeynmt
from benchmarks.peers.apart import Abroad, Apart
from benchmarks.peers.marian import marian
from benchmarks.steps import CUDA, DEVICE
from regard.decode.algorithm import sessions_on
from regard.decode.config import BeamSettings
from regard.decode.request import SearchRequest
from regard.decode.search import search
from regard.families.transformer import Transformer, TransformerConfig
from regard.model.layers import pack
from regard.text.specials import EOS, PAD, SOS

VOCABULARY, SOURCE, OUTPUT, BEAM = 32_000, 24, 32, 4
Outputs = list[list[int]]
Systems = dict[str, Callable[[int], Outputs]]


def sentences(batch: int) -> Tensor:
    return torch.randint(4, VOCABULARY, (batch, SOURCE), generator=torch.Generator().manual_seed(1))


def ended(batch: int) -> Tensor:
    return torch.cat([sentences(batch), torch.full((batch, 1), EOS)], 1).to(DEVICE)


@torch.no_grad()
def ours(model: Transformer, sessions: Any, batch: int) -> Outputs:
    read = model.start(ended(batch), torch.full((batch,), SOURCE + 1, device=DEVICE))
    limits, settings = dict(limits=[OUTPUT] * batch, minimum_length=OUTPUT), BeamSettings(beam=BEAM, length_penalty=0.0)
    request = SearchRequest(encoded=read, sos=SOS, eos=EOS, method=settings, banned=(PAD, SOS), sessions=sessions, **limits)
    return [found[0].ids for found in search(request)]


@torch.no_grad()
def hugging_face(model: Any, batch: int) -> Outputs:
    source = ended(batch)
    lengths = dict(min_new_tokens=OUTPUT, max_new_tokens=OUTPUT)
    found = model.generate(
        input_ids=source, attention_mask=torch.ones_like(source), num_beams=BEAM, length_penalty=0.0, do_sample=False, **lengths
    )
    return [row_[1:].tolist() for row_ in found]


def ctranslate2_(folder: Path, kind: str, vocabulary: list[str], threads: int) -> Callable[[int], Outputs]:
    import ctranslate2

    translator = ctranslate2.Translator(str(folder), device="cpu", intra_threads=threads, compute_type=kind)
    numbers = {token: number for number, token in enumerate(vocabulary)}

    def translate(batch: int) -> Outputs:
        source = [[vocabulary[n] for n in row_] for row_ in sentences(batch).tolist()]
        found = translator.translate_batch(
            source, beam_size=BEAM, min_decoding_length=OUTPUT, max_decoding_length=OUTPUT, length_penalty=0
        )
        return [[numbers[token] for token in result.hypotheses[0]] for result in found]

    return translate


def joeynmt_(translator: Abroad, batch: int) -> Outputs:
    found: Outputs = translator.ask("translate", ended(batch).tolist(), BEAM, OUTPUT)
    return found


def on_a_gpu(model: Transformer) -> Systems:
    peer = marian(model).to(DEVICE)
    _must_agree({"regard": partial(ours, model, sessions_on(DEVICE)), "hugging face": partial(hugging_face, peer)})
    half = model.bfloat16()
    return {"regard": partial(ours, half, sessions_on(DEVICE)), "hugging face": partial(hugging_face, peer.bfloat16())}


def on_a_cpu(model: Transformer, folder: Path) -> Systems:
    from benchmarks.peers import ctranslate

    fast, int8 = copy.deepcopy(model), copy.deepcopy(model)
    pack(fast)
    pack(int8, "int8")
    systems: Systems = {"regard": partial(ours, fast, None), "regard int8": partial(ours, int8, None)}
    systems["hugging face"] = partial(hugging_face, marian(model))
    for kind in ("float32", "int8"):
        vocabulary = ctranslate.save(model, folder / kind, None if kind == "float32" else kind)
        name = f"ctranslate2{'' if kind == 'float32' else ' int8'}"
        systems[name] = Apart(ctranslate2_, folder / kind, kind, vocabulary, torch.get_num_threads())
    if joeynmt.ready():
        systems["joeynmt"] = partial(joeynmt_, joeynmt.translator(model))
    _must_agree({name: run for name, run in systems.items() if "int8" not in name})
    return systems


def _must_agree(systems: Systems) -> None:
    found = {name: run(4) for name, run in systems.items()}
    if any(outputs != found["regard"] for outputs in found.values()):
        raise SystemExit("the systems disagree")


def main(rounds: int = 7) -> None:
    model = Transformer(TransformerConfig(dropout=0.0), VOCABULARY, VOCABULARY).to(DEVICE).eval()
    pairs, remark = [("regard", "hugging face")], "" if CUDA else f" {joeynmt.remark()}"
    if not CUDA:
        pairs += [("regard", "ctranslate2"), ("regard int8", "ctranslate2 int8")]
        pairs += [("regard", "joeynmt")] if joeynmt.ready() else []
    rows = list[Row]()
    with tempfile.TemporaryDirectory() as folder:
        systems = on_a_gpu(model) if CUDA else on_a_cpu(model, Path(folder))
        for batch in (1, 32) if CUDA else (1, 16):
            seconds = alternate({name: partial(run, batch) for name, run in systems.items()}, rounds, warm_up=2)
            rows += [row(f"batch {batch}", "tokens/s", batch * OUTPUT, seconds, pairs=pairs, bars=bars(batch))]
    write(
        "decode_beam",
        title="Transformer-base, beam 4",
        setting="Random weights, 24 source tokens, 32 output tokens forced. The same tokens in float32 first; timed with bf16 "
        "weights on a GPU, float32 and int8 on a CPU. CTranslate2 runs in a process of its own." + remark,
        rows=rows,
        versions=versions("transformers") if CUDA else versions("transformers", "ctranslate2") | joeynmt.version(),
    )


def bars(batch: int) -> dict[str, dict[str, float]]:
    if CUDA:
        return {"regard / hugging face": {"floor": 6.0, "goal": 15.0} if batch == 1 else {"floor": 4.0, "goal": 10.0}}
    return {
        "regard / hugging face": {"floor": 2.0, "goal": 3.5},
        "regard / ctranslate2": {"floor": 0.6, "goal": 1.0},
        "regard int8 / ctranslate2 int8": {"floor": 0.5, "goal": 0.9},
    }


if __name__ == "__main__":
    main()

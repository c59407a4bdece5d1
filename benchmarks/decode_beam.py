"""Beam search with the same Transformer-base weights: ours, Hugging Face's Marian and, on a CPU, CTranslate2.

    python -m benchmarks.decode_beam

Random weights, 24 source tokens, 32 output tokens forced, beam 4: every system does the same work. Before any clock runs, all
must find the same tokens. Needs transformers and ctranslate2 (pip install transformers ctranslate2).
"""

from __future__ import annotations

import copy
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import ctranslate2
import torch
from torch import Tensor

from benchmarks.measure import alternate, summary, write
from benchmarks.peers import ctranslate
from benchmarks.peers.marian import marian
from regard.decode import beam_search
from regard.families.transformer import Transformer, TransformerConfig
from regard.model.packed import pack
from regard.text.vocabulary import EOS, PAD, SOS

VOCABULARY, SOURCE, OUTPUT, BEAM = 32_000, 24, 32, 4
Outputs = list[list[int]]


def sentences(batch: int) -> Tensor:
    return torch.randint(4, VOCABULARY, (batch, SOURCE), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def ours(model: Transformer, batch: int) -> Outputs:
    source = torch.cat([sentences(batch), torch.full((batch, 1), EOS)], 1)
    state = model.start(source, torch.full((batch,), SOURCE + 1))
    limits = torch.full((batch,), OUTPUT)
    found = beam_search(state, batch, sos=SOS, eos=EOS, beam=BEAM, alpha=0.0, maximum=limits, minimum=OUTPUT, banned=(PAD, SOS))
    return [hypotheses[0].ids for hypotheses in found]


@torch.no_grad()
def hugging_face(model: object, batch: int) -> Outputs:
    source = torch.cat([sentences(batch), torch.full((batch, 1), EOS)], 1)
    lengths = dict(min_new_tokens=OUTPUT, max_new_tokens=OUTPUT)
    found = model.generate(
        input_ids=source, attention_mask=torch.ones_like(source), num_beams=BEAM, length_penalty=0.0, do_sample=False, **lengths
    )
    return [row[1:].tolist() for row in found]


def ctranslate2_(translator: ctranslate2.Translator, vocabulary: list[str], batch: int) -> Outputs:
    numbers = {token: number for number, token in enumerate(vocabulary)}
    source = [[vocabulary[n] for n in row] for row in sentences(batch).tolist()]
    found = translator.translate_batch(
        source, beam_size=BEAM, min_decoding_length=OUTPUT, max_decoding_length=OUTPUT, length_penalty=0
    )
    return [[numbers[token] for token in result.hypotheses[0]] for result in found]


def contenders(folder: Path) -> dict[str, Callable[[int], Outputs]]:
    model = Transformer(TransformerConfig(dropout=0.0), VOCABULARY, VOCABULARY).eval()
    fast, int8 = copy.deepcopy(model), copy.deepcopy(model)
    pack(fast)
    pack(int8, "int8")
    systems: dict[str, Callable[[int], Outputs]] = {"regard": partial(ours, fast), "regard int8": partial(ours, int8)}
    systems["hugging face"] = partial(hugging_face, marian(model))
    for kind in ("float32", "int8"):
        vocabulary = ctranslate.save(model, folder / kind, None if kind == "float32" else kind)
        threads = torch.get_num_threads()
        translator = ctranslate2.Translator(str(folder / kind), device="cpu", intra_threads=threads, compute_type=kind)
        systems[f"ctranslate2{'' if kind == 'float32' else ' int8'}"] = partial(ctranslate2_, translator, vocabulary)
    return systems


def main(rounds: int = 7) -> None:
    torch.manual_seed(0)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        systems = contenders(Path(folder))
        for batch in (1, 16):
            exact = {name: run(batch) for name, run in systems.items() if "int8" not in name}
            assert all(outputs == exact["regard"] for outputs in exact.values()), "the systems disagree"
            seconds = alternate({name: partial(run, batch) for name, run in systems.items()}, rounds, warm_up=1)
            speed = {name: batch * OUTPUT / statistics.median(values) for name, values in seconds.items()}
            ratios = {
                "regard / hugging face": speed["regard"] / speed["hugging face"],
                "regard / ctranslate2": speed["regard"] / speed["ctranslate2"],
                "regard int8 / ctranslate2 int8": speed["regard int8"] / speed["ctranslate2 int8"],
            }
            results[f"batch {batch}"] = {
                "tokens_per_second": speed,
                "ratios": ratios,
                "seconds": {name: summary(values) for name, values in seconds.items()},
            }
            print(f"batch {batch}: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))
    settings = {
        "model": "transformer base",
        "vocabulary": VOCABULARY,
        "source": SOURCE,
        "output": OUTPUT,
        "beam": BEAM,
        "rounds": rounds,
    }
    peers = {name: version(name) for name in ("transformers", "ctranslate2")}
    print(f"written to {write('decode_beam', {'settings': settings, 'peers': peers, **results}).name}")


if __name__ == "__main__":
    main()

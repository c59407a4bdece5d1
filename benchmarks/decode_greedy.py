"""Greedy decoding with GPT-2 (124M), the same weights: ours against Hugging Face's, with its default and its static cache.

Ours twice: the search alone, and what `regard predict` and `regard.load` do, from text to text.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import tokenizers
import torch
from tokenizers import models, pre_tokenizers
from torch import Tensor

from benchmarks.measure import Row, alternate, row, versions, write
from benchmarks.peers.gpt2 import gpt2
from benchmarks.steps import CUDA, DEVICE
from regard.decode.algorithm import sessions_on
from regard.decode.config import DecodeConfig
from regard.decode.request import SearchRequest
from regard.decode.search import search
from regard.families.gpt import GPT, GPTConfig
from regard.model.layers import pack
from regard.tasks.language_model.predict import TextGenerator
from regard.text.tokenizer import Tokenizer

VOCABULARY, PROMPT, OUTPUT = 50_257, 32, 256 if CUDA else 32
END = 0  # never comes: as many tokens as asked for are forced
Outputs = list[list[int]]


def prompts(batch: int) -> Tensor:
    return torch.randint(1, VOCABULARY, (batch, PROMPT), generator=torch.Generator().manual_seed(1)).to(DEVICE)


@torch.no_grad()
def ours(model: GPT, sessions: object, batch: int) -> Outputs:
    ids = prompts(batch)
    read = model.start(ids[:, :-1], torch.full((batch,), PROMPT - 1, device=DEVICE))
    limits = dict(limits=[OUTPUT] * batch, minimum_length=OUTPUT)
    request = SearchRequest(encoded=read, sos=ids[:, -1], eos=END, sessions=sessions, **limits)
    return [found[0].ids for found in search(request)]


def named() -> Tokenizer:
    """A vocabulary whose words are their numbers, so that what is timed is not how text is cut."""
    words = tokenizers.Tokenizer(models.WordLevel({f"w{n}": n for n in range(VOCABULARY)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return Tokenizer(words)


def public(writer: TextGenerator, batch: int) -> Outputs:
    texts = [" ".join(f"w{n}" for n in row) for row in prompts(batch).tolist()]
    return [found[0].ids for found in writer.write(texts)]


def writer(model: GPT) -> TextGenerator:
    config = DecodeConfig(search="greedy", maximum_length=OUTPUT, batch_tokens=1 << 20)
    return TextGenerator(model, named(), config, model.config.maximum_length)


@torch.no_grad()
def hugging_face(model: object, batch: int, **cache: str) -> Outputs:
    ids = prompts(batch)
    seen, lengths = torch.ones_like(ids), dict(min_new_tokens=OUTPUT, max_new_tokens=OUTPUT)
    found = model.generate(
        input_ids=ids, attention_mask=seen, do_sample=False, pad_token_id=END, eos_token_id=END, **lengths, **cache
    )
    return found[:, PROMPT:].tolist()


def contenders() -> dict[str, Callable[[int], Outputs]]:
    model = GPT(GPTConfig(dropout=0.0), VOCABULARY).to(DEVICE).eval()
    peer = gpt2(model).eval()
    _must_agree(model, peer)
    if CUDA:
        model, peer = model.bfloat16(), peer.bfloat16()
        found = {"regard": partial(ours, model, sessions_on(DEVICE)), "regard predict": partial(public, writer(model))}
        static = {"hugging face, static cache": partial(hugging_face, copy.deepcopy(peer), cache_implementation="static")}
        return {**found, **static, "hugging face": partial(hugging_face, peer)}
    systems: dict[str, Callable[[int], Outputs]] = {}
    for name, weights in (("regard", "float32"), ("regard bf16", "bfloat16"), ("regard int8", "int8")):
        twin = copy.deepcopy(model)
        pack(twin, weights)
        systems[name] = partial(ours, twin, None)
        if weights == "float32":
            systems["regard predict"] = partial(public, writer(twin))
    half = copy.deepcopy(peer).bfloat16()
    return {**systems, "hugging face": partial(hugging_face, peer), "hugging face bf16": partial(hugging_face, half)}


def _must_agree(model: GPT, peer: object) -> None:
    """In float32, where sums in another order do not change which token is largest."""
    expected = hugging_face(peer, 2)
    if ours(model, sessions_on(DEVICE), 2) != expected or public(writer(model), 2) != expected:
        raise SystemExit("the systems disagree")


def bars(batch: int) -> dict[str, dict[str, float]]:
    if CUDA:
        bar = {"floor": 3.0 if batch == 1 else 2.7, "goal": 4.0}
        return {f"{ours} / hugging face, static cache": bar for ours in ("regard", "regard predict")}
    bar = {"floor": 1.5, "goal": 2.5}
    return {f"{ours} / hugging face": bar for ours in ("regard", "regard predict")} | {
        "regard int8 / hugging face": {"floor": 1.5, "goal": 4.0}
    }


def main(rounds: int = 5) -> None:
    torch.manual_seed(0)
    systems, rows = contenders(), list[Row]()
    theirs = "hugging face, static cache" if CUDA else "hugging face"
    pairs = [("regard", theirs), ("regard predict", theirs)]
    if CUDA:
        pairs += [("regard", "hugging face")]
    else:
        pairs += [("regard bf16", "hugging face bf16"), ("regard bf16", theirs), ("regard int8", theirs)]
    for batch in (1, 32) if CUDA else (1,):
        seconds = alternate({name: partial(run, batch) for name, run in systems.items()}, rounds, warm_up=2)
        rows += [row(f"batch {batch}", "tokens/s", batch * OUTPUT, seconds, bars=bars(batch), pairs=pairs)]
    write(
        "decode_greedy",
        title="GPT-2 (124M), greedy",
        setting=f"Random weights, {PROMPT} tokens of prompt, {OUTPUT} more forced. The same tokens in float32 first; timed with "
        "bf16 weights on a GPU, float32, bf16 and int8 on a CPU.",
        rows=rows,
        versions=versions("transformers"),
    )


if __name__ == "__main__":
    main()

"""Small predictors of several tasks with random weights, and what each of them writes alone."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from regard.commands.loaded import with_decode
from regard.decode.config import GREEDY, BeamSettings, DecodeConfig, Sampling
from regard.families import build_model
from regard.families.gpt import GPT, GPTConfig
from regard.families.llama import LLaMAConfig
from regard.families.recurrent import RecurrentConfig
from regard.families.t5 import T5Config
from regard.families.transformer import TransformerConfig
from regard.serve.settings import writer_of
from regard.serve.work import EngineSettings, Generate
from regard.tasks.dialogue.predict import Fit, Responder
from regard.tasks.language_model.predict import TextGenerator
from regard.tasks.translation.predict import Tokenizers, Translator
from regard.text.tokenizer import Tokenizer, train_tokenizer
from tests.families.public_folder import shaken

TEXT = "the cat sees a bird and then it sleeps under an old tree near the river while people walk home slowly"
WORDS = TEXT.split(" ")
SMALL: dict[str, Any] = {"width": 16, "heads": 2, "layers": 2, "feedforward": 24, "dropout": 0.0}
WINDOW = 64


@cache
def tokenizer() -> Tokenizer:
    return train_tokenizer("bpe", [" ".join(WORDS)], 60)


@cache
def writer(kind: str, seed: int = 1) -> Any:
    """Return a predictor in float32."""
    vocabulary = tokenizer()
    size, plain = len(vocabulary), DecodeConfig(search="greedy", maximum_length=12)
    if kind in ("gpt", "llama"):
        config = (GPTConfig if kind == "gpt" else LLaMAConfig)(**SMALL, maximum_length=WINDOW)
        model = shaken(build_model(config, seed, vocabulary=size)).eval()
        assert isinstance(model, GPT)
        return TextGenerator(model, vocabulary, plain, WINDOW)
    configs: dict[str, Any] = {
        "transformer": TransformerConfig(**SMALL),
        "t5": T5Config(**SMALL, head_width=8),
        "recurrent": RecurrentConfig(width=16, dropout=0.0),
        "dialogue": TransformerConfig(**SMALL),
    }
    model = shaken(build_model(configs[kind], seed, vocabulary=size, target_vocabulary=size)).eval()
    translator = Translator(model, Tokenizers(vocabulary, vocabulary), plain)
    return Responder(translator, Fit(vocabulary, 3, 40)) if kind == "dialogue" else translator


KINDS = ("gpt", "llama", "transformer", "t5", "recurrent", "dialogue")


def request(rng: random.Random) -> Generate:
    """Return a request of one of several kinds."""
    methods: list[dict[str, Any]] = [
        {},
        {"method": GREEDY, "stop": ("t", "ee")},
        {"method": GREEDY, "settings": {"no_repeat_ngram": 2, "banned_words": ["cat"]}},
        {"method": Sampling(temperature=0.7), "n": rng.choice([1, 1, 3]), "seed": rng.randrange(99)},
        {"method": Sampling(top_p=0.9, top_k=20), "seed": rng.randrange(99), "logprobs": 2},
        {"method": Sampling(temperature=0.0, repetition_penalty=1.5), "minimum_tokens": 3},
        {"method": BeamSettings(beam=3)},
        {"method": BeamSettings(beam=3, length_penalty=1.0), "n": 2, "settings": {"prefix": "the"}},
    ]
    words = rng.choices(WORDS, k=rng.randint(0, 12))
    chosen = rng.choice(methods)
    least = chosen.get("minimum_tokens", 0) + 4
    return Generate(text=" ".join(words), max_tokens=rng.randint(least, 16), **chosen)


def alone(predictor: Any, work: Generate) -> list[tuple[str, list[int]]]:
    """Return the texts and their tokens that a run's own predictor writes, one request at a time."""
    changed = writer_of(predictor, work, EngineSettings())
    if isinstance(changed, TextGenerator):
        if work.stop:
            changed = with_decode(changed, DecodeConfig(**{**vars(changed.decode), "stop": work.stop}))
        return [(found.text, found.ids) for found in changed.write([work.text])[0]]
    if isinstance(changed, Responder):
        found = changed.translator.translate(changed._fitted([work.text.split(" __eou__ ")]))[0]
    else:
        found = changed.translate([work.text])[0]
    return [cut(found.text, found.ids, work.stop) for found in found]


def cut(text: str, ids: list[int], stops: tuple[str, ...]) -> tuple[str, list[int]]:
    """Return a text up to its first stop, and the tokens by which that stop was written."""
    for size in range(1, len(ids) + 1):
        so_far = tokenizer().decode(ids[:size])
        ends = [so_far.find(stop) for stop in stops if stop in so_far]
        if ends:
            return so_far[: min(ends)], ids[:size]
    return text, ids

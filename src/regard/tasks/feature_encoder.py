"""The part of a model that reads, whatever it was trained for: tokens in, a vector of each token out of every layer.

GPT          its decoder        <eos> text
BERT, ...    its encoder        [CLS] text [SEP]
ELMo         both of its ways   <eos> text <eos>
Transformer  its encoder        text <eos>
recurrent    its encoder        text <eos>
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.families import FAMILIES, build_model, family_of, marks_of
from regard.families.base import Heads
from regard.model.block import Stack
from regard.model.probe import layers
from regard.runs.folder import Run, choose_device
from regard.runs.pretrained import InitCheckpoint, start_of
from regard.tasks.registry import is_public
from regard.tasks.translation.predict import Translator
from regard.text.tokenizer import Tokenizer

ONLY_BODY = Heads(words=False)
EncodedPrompt = Callable[[Tensor, Tensor], Tensor]
Layers = Callable[[Tensor, Tensor], Sequence[Tensor]]


@dataclass(frozen=True, eq=False)
class Body:
    name: str
    tokenizer: Tokenizer
    tokens: nn.Embedding  # the static vectors
    layers: Layers | None  # of ids_BL and lengths_B; a recurrent translator has none
    before: tuple[int, ...]  # marks around a text
    after: tuple[int, ...]
    positions: int | None  # None where they do not end

    @property
    def device(self) -> torch.device:
        return self.tokens.weight.device

    def around(self, ids: list[int]) -> list[int]:
        return [*self.before, *ids, *self.after]


def open_body(name: str | Path, device: str | None = None) -> Body:
    """Open the body of a run, of a Hugging Face folder, or of hf:NAME on its hub."""
    where = choose_device(device)
    if not is_public(name):
        run = Run.open(name)
        family = family_of(run.recipe.model)
        if family.has("seq2seq") and not family.has("dialogue_context"):
            return _of_translator(str(name), Translator.of(run, run.recipe, where))
    return _of_start(start_of(str(name)), where)


def _of_start(start: InitCheckpoint, device: torch.device) -> Body:
    config = FAMILIES[start.settings["model"]["family"]].config(**start.settings["model"])
    family = family_of(config)
    if not family.has("causal_lm") and not family.has("token_vectors", "token_heads"):
        able = "a GPT, a BERT or relative, an ELMo, or a translator"
        raise UserError(f"{start.name} is of the family {config.family}; a word is followed through the layers of {able}.")
    around, tokenizer = marks_of(config, start.tokenizer.roles), start.tokenizer
    if family.has("causal_lm"):
        gpt = build_model(config, vocabulary=start.vocabulary)
        start.fill(gpt)
        gpt.to(device).eval()

        def read(ids_BL: Tensor, lengths_B: Tensor) -> Tensor:
            return gpt.hidden(ids_BL)  # no word sees the padding behind it

        seen = between(gpt.decoder, read)
        return Body(start.name, tokenizer, gpt.embed.tokens, seen, (around.start,), (), config.context)
    both: Any = build_model(config, vocabulary=start.vocabulary, heads=ONLY_BODY)
    start.fill(both)
    both.to(device).eval()
    seen = between(both.encoder, both.hidden) if family.has("blocks") else both.layers
    return Body(start.name, tokenizer, both.embed.tokens, seen, (around.start,), (around.end,), config.context)


def _of_translator(name: str, translator: Translator) -> Body:
    model: Any = translator.model
    tokenizer = translator.tokenizer
    seen = between(model.encoder, model.encode) if isinstance(model.encoder, Stack) else None
    return Body(name, tokenizer, model.source.tokens, seen, (), translator.marks.ends[:1], model.config.context)


def between(stack: Stack, read: EncodedPrompt) -> Layers:
    """Return a function that gives the input of a stack and the output of each of its layers."""

    def found(ids_BL: Tensor, lengths_B: Tensor) -> Sequence[Tensor]:
        with layers(stack) as seen:
            read(ids_BL, lengths_B)
        return seen

    return found

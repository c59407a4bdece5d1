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

import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.families import FAMILIES, marks_of
from regard.families.base import Heads
from regard.families.bert import BERTConfig
from regard.families.bodies import body_of
from regard.families.elmo import ELMo, ELMoConfig
from regard.families.gpt import GPT, GPTConfig
from regard.families.published_sizes import context
from regard.families.transformer import Transformer
from regard.model.probe import layers
from regard.model.stack import Stack
from regard.runs.folder import Run, choose_device
from regard.runs.pretrained import InitCheckpoint, start_of
from regard.tasks.registry import is_public
from regard.tasks.translation.predict import Translator
from regard.text.specials import EOS
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
    """Of a run, a Hugging Face folder, or hf:NAME on its hub."""
    where = choose_device(device)
    if not is_public(name):
        run = Run.open(name)
        if run.recipe.model.family in ("transformer", "recurrent"):
            return _of_translator(str(name), Translator.of(run, run.recipe, where))
    return _of_start(start_of(str(name)), where)


def _of_start(start: InitCheckpoint, device: torch.device) -> Body:
    config = FAMILIES[start.settings["model"]["family"]].config(**start.settings["model"])
    if not isinstance(config, GPTConfig | BERTConfig | ELMoConfig):
        able = "a GPT, a BERT or relative, an ELMo, or a translator"
        raise UserError(f"{start.name} is of the family {config.family}; a word is followed through the layers of {able}.")
    around, tokenizer = marks_of(config, start.tokenizer.roles), start.tokenizer
    if isinstance(config, GPTConfig):
        gpt = GPT(config, start.vocabulary)
        start.fill(gpt)
        gpt.to(device).eval()

        def read(ids_BL: Tensor, lengths_B: Tensor) -> Tensor:
            return gpt.hidden(ids_BL)  # no word sees the padding behind it

        seen = between(gpt.decoder, read)
        return Body(start.name, tokenizer, gpt.embed.tokens, seen, (around.start,), (), context(config))
    both = body_of(config, start.vocabulary, heads=ONLY_BODY)
    start.fill(both)
    both.to(device).eval()
    seen = both.layers if isinstance(both, ELMo) else between(both.encoder, both.hidden)
    return Body(start.name, tokenizer, both.embed.tokens, seen, (around.start,), (around.end,), context(config))


def _of_translator(name: str, translator: Translator) -> Body:
    model, tokenizer = translator.model, translator.tokenizers.source
    seen = between(model.encoder, model.encode) if isinstance(model, Transformer) else None
    return Body(name, tokenizer, model.source.tokens, seen, (), (EOS,), context(model.config))


def between(stack: Stack, read: EncodedPrompt) -> Layers:
    """What goes into a stack and what each of its layers makes of it, when this reads."""

    def found(ids_BL: Tensor, lengths_B: Tensor) -> Sequence[Tensor]:
        with layers(stack) as seen:
            read(ids_BL, lengths_B)
        return seen

    return found

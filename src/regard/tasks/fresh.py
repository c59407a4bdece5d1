"""The same model before it was trained: of the same family, size and vocabulary, with the weights that training starts from.

What a trained model does is worth telling only if this one does not do it.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from torch import nn

from regard.errors import UserError
from regard.families.bert import BERT, Heads
from regard.families.classifier import Classifier, classifier
from regard.families.encoder import Encoder
from regard.families.encoder_decoder import encoder_decoder
from regard.families.gpt import GPT
from regard.families.recurrent import Recurrent
from regard.families.transformer import Transformer
from regard.tasks.task import Answers


def fresh(answers: Answers, seed: int = 0) -> Any:
    """The same answers, by a model with random weights."""
    model = fresh_model(answers.model, seed)
    return replace(answers, model=model.to(next(answers.model.parameters()).device).eval())  # type: ignore[type-var]


def fresh_model(model: nn.Module, seed: int = 0) -> nn.Module:
    match model:
        case Transformer() | Recurrent():
            words = (len(model.source.tokens.weight), len(model.target.tokens.weight))
            return encoder_decoder(model.config, *words, seed)
        case GPT():
            return GPT(model.config, len(model.embed.tokens.weight), seed)
        case BERT():
            return BERT(model.config, len(model.embed.tokens.weight), seed, _heads(model))
        case Encoder():
            return Encoder(model.config, len(model.embed.tokens.weight), seed, _heads(model))
        case Classifier():
            return classifier(model.body.config, len(model.body.embed.tokens.weight), len(model.classes.project.weight), seed)
    raise UserError(f"a {type(model).__name__} cannot be drawn anew yet, so there is nothing to hold it against.")


def _heads(model: BERT | Encoder) -> Heads:
    """Those that it has; a word's is called `head`."""
    there = {name for name, _ in model.named_children()}
    asked: dict[str, Any] = {field.name: field.name in there for field in fields(Heads)}
    asked |= {name: len(getattr(model, name).project.weight) for name in ("classes", "tags") if name in there}
    return Heads(**{**asked, "words": "head" in there})

"""A classifier: any body that reads, and one more layer that says what a text is.

Radford et al. 2018, section 3.2 and figure 1, on a GPT: text, then an extract token, whose vector has seen it all; two texts with
a delimiter between them. Devlin et al. 2019, sections 3.1 and 4.1, on a BERT: [CLS] text [SEP], two texts as two segments; the
vector of [CLS] passes the pooler. RoBERTa has no segments and two separators between two texts. Tay et al. 2021 on a plain
encoder, which may also read two texts apart. Yang et al. 2016 on a hierarchy: a mark around each sentence of a text. Peters et
al. 2018 on an ELMo: the mean of its words, between the marks that part texts where it was trained.

Differs from the papers in: GPT's three marks are no new tokens but the vocabulary's own. Its end token starts a text, as it does
where a GPT is trained here, and is what the label is extracted from; its start token stands between two texts. GPT-2 has one
piece for all of them, and a vocabulary without any (GPT-1's) lends its <unk>.

Dims: N texts, C classes.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.core.packing import Packing, Words
from regard.families import bert, elmo, encoder, gpt, han
from regard.families.base import Heads
from regard.families.bert import BERT, BERTConfig
from regard.families.elmo import ELMo, ELMoConfig
from regard.families.encoder import Encoder, EncoderConfig
from regard.families.gpt import GPT, GPTConfig
from regard.families.han import HAN, HANConfig
from regard.model.flops import Part, linear
from regard.model.heads import LinearHead
from regard.model.init import initialise

Config = GPTConfig | BERTConfig | EncoderConfig | HANConfig | ELMoConfig
Body = GPT | BERT | Encoder | HAN | ELMo
POOLED = Heads(words=False, pooler=True)  # what a classifier asks of a body that reads both ways


class Classifier(nn.Module):
    """The body keeps its own names below `body.`, so that weights it was trained with elsewhere fit. Only a GPT has no pooler."""

    def __init__(self, body: Body, classes: int, seed: int = 0) -> None:
        super().__init__()
        self.body = body
        self.classes = LinearHead(body.config.width, classes, body.config.dropout)
        initialise(self.classes, seed, deviation=0.02)

    def forward(self, ids_BL: Tensor, words: Words, segments_BL: Tensor | None = None) -> Tensor:
        """logits_NC. `words` says what of the rows are words: lengths_B, or how the texts are packed."""
        return self.scores(self.hidden(ids_BL, words, segments_BL), words)

    def hidden(self, ids_BL: Tensor, words: Words, segments_BL: Tensor | None = None) -> Tensor:
        """Each token in its context, x_BLD."""
        if isinstance(self.body, GPT):
            return self.body.hidden(ids_BL, words if isinstance(words, Packing) else None)  # no word sees the padding behind it
        return self.body.hidden(ids_BL, words, segments_BL if self.body.config.segments > 1 else None)

    def scores(self, x_BLD: Tensor, words: Words) -> Tensor:
        """logits_NC from one vector a text: the last token's of a GPT, what the pooler makes of the others'."""
        return self.classes(last_tokens(x_BLD, words) if isinstance(self.body, GPT) else self.body.pooler(x_BLD, words))


def last_tokens(x_BLD: Tensor, words: Words) -> Tensor:
    """x_ND of texts that come one a row, or packed into one row."""
    if isinstance(words, Packing):
        return x_BLD[0, words.starts_N[1:] - 1]
    if isinstance(words, Tensor):
        return x_BLD[torch.arange(len(x_BLD), device=x_BLD.device), words - 1]
    raise TypeError("texts to classify come one a row, or packed into one row")


def classifier(config: Config, vocabulary: int, classes: int, seed: int = 0) -> Classifier:
    """From scratch."""
    return Classifier(_body(config, vocabulary, seed), classes, seed)


def _body(config: Config, vocabulary: int, seed: int) -> Body:
    if isinstance(config, GPTConfig):
        return GPT(config, vocabulary, seed)
    if isinstance(config, EncoderConfig):
        return Encoder(config, vocabulary, seed, POOLED)
    if isinstance(config, HANConfig):
        return HAN(config, vocabulary, seed)
    if isinstance(config, ELMoConfig):
        return ELMo(config, vocabulary, seed, POOLED)
    return BERT(config, vocabulary, seed, POOLED)


def count(config: Config, vocabulary: int, tokens: int, classes: int, language: bool = False) -> Part:
    """The model as a tree of parts with the operations of one text; words are scored only with a `language` loss beside it."""
    heads = replace(POOLED, classes=classes)
    if isinstance(config, BERTConfig):
        parts = bert.count(config, vocabulary, tokens, heads=heads).children
    elif isinstance(config, EncoderConfig):
        parts = encoder.count(config, vocabulary, tokens, heads=heads).children
    elif isinstance(config, ELMoConfig):
        parts = elmo.count(config, vocabulary, tokens, heads).children
    elif isinstance(config, HANConfig):
        parts = han.count(config, vocabulary, tokens, classes).children
    else:
        *body, words = gpt.count(config, vocabulary, tokens).children
        head = Part("classes", f"D={config.width} -> {classes:,}", "model/heads.py", linear(config.width, classes))
        head = replace(head, own_flops=2 * config.width * classes)
        parts = (*body, words, head) if language else (*body, head)
    return Part(f"{config.family} classifier", f"B,L -> B,C={classes:,}", "families/classifier.py", children=parts)

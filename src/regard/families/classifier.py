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

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.packing import Packing, Words
from regard.families import family_of
from regard.families.base import Heads, Sizes, all_words
from regard.families.flops import Part, on_meta
from regard.families.flops import count as counted
from regard.model.heads import LinearHead
from regard.model.init import initialise

POOLED = Heads(words=False, pooler=True)  # what a classifier asks of a body that reads both ways


class Classifier(nn.Module):
    """A body and a layer of classes. The body keeps its own names below `body.`, so that weights trained elsewhere fit."""

    def __init__(self, body: Any, classes: int, seed: int = 0) -> None:
        super().__init__()
        self.body, self.causal = body, family_of(body).has("causal_lm")
        self.classes = LinearHead(body.config.width, classes, body.config.dropout)
        initialise(self.classes, seed, deviation=0.02)

    def forward(self, ids_BL: Tensor, words: Words, segments_BL: Tensor | None = None) -> Tensor:
        """logits_NC. `words` says what of the rows are words: lengths_B, or how the texts are packed."""
        return self.scores(self.hidden(ids_BL, words, segments_BL), words)

    def hidden(self, ids_BL: Tensor, words: Words, segments_BL: Tensor | None = None) -> Tensor:
        """Each token in its context, x_BLD."""
        if self.causal:
            return self.body.hidden(ids_BL, words if isinstance(words, Packing) else None)  # no word sees the padding behind it
        return self.body.hidden(ids_BL, words, segments_BL if self.body.config.segments > 1 else None)

    def scores(self, x_BLD: Tensor, words: Words) -> Tensor:
        """logits_NC from one vector a text: the last token's of a GPT, what the pooler makes of the others'."""
        return self.classes(last_tokens(x_BLD, words) if self.causal else self.body.pooler(x_BLD, words))


def last_tokens(x_BLD: Tensor, words: Words) -> Tensor:
    """Return x_ND, the vector of each text's last token; texts come one a row, or packed into one row."""
    if isinstance(words, Packing):
        return x_BLD[0, words.starts_N[1:] - 1]
    if isinstance(words, Tensor):
        return x_BLD[torch.arange(len(x_BLD), device=x_BLD.device), words - 1]
    raise TypeError("texts to classify come one a row, or packed into one row")


def classifier(config: Any, vocabulary: int, classes: int, seed: int = 0) -> Classifier:
    """Build a classifier with new weights."""
    body = family_of(config).build(config, Sizes(vocabulary=vocabulary, heads=POOLED), seed)
    return Classifier(body, classes, seed)


def count(config: Any, vocabulary: int, tokens: int, classes: int, language: bool = False) -> Part:
    """Return the tree of a classifier with the operations of one text; words are scored only with a `language` loss beside it."""
    family, sizes = family_of(config), Sizes(vocabulary=vocabulary, heads=POOLED)
    model: Any = on_meta(lambda: classifier(config, vocabulary, classes))

    def run() -> None:
        ids_BL = family.example(config, sizes, 1, tokens)[0]
        words = all_words(*ids_BL.shape)
        x_BLD = model.hidden(ids_BL, words)
        model.scores(x_BLD, words)
        if language and model.causal:
            model.body.head(x_BLD)

    return counted(model, run, f"{config.family} classifier")

"""A classifier: any body that reads, and one more layer that says what a text is.

Radford et al. 2018, section 3.2 and figure 1, on a GPT: text, then an extract token, whose vector has seen it all; two texts with
a delimiter between them. Devlin et al. 2019, sections 3.1 and 4.1, on a BERT: [CLS] text [SEP], two texts as two segments; the
vector of [CLS] passes a dense layer with tanh (the "pooler").

Differs from the papers in: GPT's three marks are no new tokens but the vocabulary's own. Its end token starts a text, as it does
where a GPT is trained here, and is what the label is extracted from; its start token stands between two texts. GPT-2 has
one piece for all of them, and a vocabulary without any (GPT-1's) lends its <unk>.

Dims: N texts, C classes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.data.labels import Marks
from regard.data.packing import Packing, Words
from regard.errors import UserError
from regard.families.bert import BERT, BERTConfig
from regard.families.gpt import GPT, GPTConfig
from regard.families.sizes import counted
from regard.model.count import Part, linear
from regard.model.init import initialise
from regard.model.linear import Linear
from regard.text.vocabulary import Roles

BodyConfig = GPTConfig | BERTConfig


class ClassHead(nn.Module):
    """logits_NC from one vector a text."""

    def __init__(self, width: int, classes: int, dropout: float, pooled: bool) -> None:
        super().__init__()
        self.pooler = Linear(width, width) if pooled else None
        self.dropout = nn.Dropout(dropout)
        self.project = Linear(width, classes)

    def forward(self, x_ND: Tensor) -> Tensor:
        if self.pooler is not None:
            x_ND = torch.tanh(self.pooler(x_ND))
        return self.project(self.dropout(x_ND))


class Classifier(nn.Module):
    """The body keeps its own names below `body.`, so that weights it was trained with elsewhere fit."""

    def __init__(self, body: GPT | BERT, classes: int, seed: int = 0) -> None:
        super().__init__()
        c, self.body = body.config, body
        if isinstance(body, BERT):
            del body.head  # nobody asks for masked words any more
        self.classify = ClassHead(c.width, classes, c.dropout, pooled=isinstance(body, BERT))
        initialise(self.classify, seed, deviation=0.02)

    def forward(self, ids_BL: Tensor, words: Words, segments_BL: Tensor | None = None) -> Tensor:
        """logits_NC. `words` says what of the rows are words: lengths_B, or how the texts are packed."""
        return self.scores(self.hidden(ids_BL, words, segments_BL), words)

    def hidden(self, ids_BL: Tensor, words: Words, segments_BL: Tensor | None = None) -> Tensor:
        """Each token in its context, x_BLD."""
        if isinstance(self.body, GPT):
            return self.body.hidden(ids_BL, words if isinstance(words, Packing) else None)  # no word sees the padding behind it
        return self.body.hidden(ids_BL, words, segments_BL if self.body.config.segments > 1 else None)

    def scores(self, x_BLD: Tensor, words: Words) -> Tensor:
        """logits_NC from the vector of each text's last token (GPT) or its first (BERT)."""
        last = isinstance(self.body, GPT)
        if isinstance(words, Packing):
            x_ND = x_BLD[0, words.starts_N[1:] - 1 if last else words.starts_N[:-1]]
        elif isinstance(words, Tensor):
            rows = torch.arange(len(x_BLD), device=x_BLD.device)
            x_ND = x_BLD[rows, words - 1] if last else x_BLD[:, 0]
        else:
            raise TypeError("texts to classify come one a row, or packed into one row")
        return self.classify(x_ND)


def classifier(config: BodyConfig, vocabulary: int, classes: int, seed: int = 0) -> Classifier:
    """From scratch."""
    body = GPT(config, vocabulary, seed) if isinstance(config, GPTConfig) else BERT(config, vocabulary, seed)
    return Classifier(body, classes, seed)


def marks(config: BodyConfig, roles: Roles) -> Marks:
    """What stands before, between and after texts for this family, in this vocabulary."""
    if isinstance(config, BERTConfig):
        start, end = _first(roles.cls, roles.sos), _first(roles.sep, roles.eos)
        return Marks(start, end, end)
    end = _first(roles.eos, roles.sos, roles.unk)
    return Marks(end, _first(roles.sos, end), end)


def _first(*choices: int | None) -> int:
    found = next((choice for choice in choices if choice is not None), None)
    if found is None:
        raise UserError(
            "this vocabulary has no piece that could start or end a text; start from a model whose tokenizer has one."
        )
    return found


def count(config: BodyConfig, vocabulary: int, tokens: int, classes: int, language: bool = False) -> Part:
    """The model as a tree of parts with the operations of one text; words are scored only with a `language` loss beside it."""
    tree, c = counted(config, vocabulary, tokens), config
    body = next(n for n, part in enumerate(tree.children, start=1) if part.file == "model/stack.py")
    parts = [*(tree.children if language else tree.children[:body])]
    if isinstance(config, BERTConfig):
        parts += [Part("pooler", f"D={c.width}", "families/classifier.py", linear(c.width, c.width), 2 * c.width * c.width)]
    shape = f"D={c.width} -> C={classes:,}"
    parts += [Part("classes", shape, "families/classifier.py", linear(c.width, classes), 2 * c.width * classes)]
    return Part(f"{tree.name} classifier", f"B,L -> B,C={classes:,}", "families/classifier.py", children=tuple(parts))

"""The same model before it was trained: of the same family, size and vocabulary, with the weights that training starts from.

What a trained model does is worth telling only if this one does not do it.

Random tokens that are said twice, before any model: heads that copy what came before have nothing else to go by.

Olsson et al. 2022, *In-context learning and induction heads*. Random, so that no bigram of the training text helps.

Sentences of a treebank before a model: which of its tokens belong to which of the tree's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.commands.subjects import subject_of
from regard.core.errors import UserError
from regard.data.sources.conllu import Parsed
from regard.families import family_of, marks_of
from regard.families.base import Heads, Sizes
from regard.families.classifier import classifier
from regard.lens.analyses.relations import Tree
from regard.lens.subject import Subject, TokenRow
from regard.runs.protocols import Predictor
from regard.tasks.notices import must_read_pieces
from regard.tasks.translation.predict import Translator
from regard.text.specials import EOS, SOS
from regard.text.tokenizer import Tokenizer


def fresh(answers: Predictor, seed: int = 0) -> Any:
    """Return the same predictor with the weights that training starts from."""
    model = fresh_model(answers.model, seed)
    return replace(answers, model=model.to(next(answers.model.parameters()).device).eval())  # type: ignore[type-var]


def fresh_model(model: Any, seed: int = 0) -> nn.Module:
    """Return a model of the same family, size and heads with the weights that training with this seed starts from."""
    family = family_of(model)
    if hasattr(model, "body") and hasattr(model, "classes"):
        return classifier(model.body.config, len(model.body.embed.tokens.weight), len(model.classes.project.weight), seed)
    if family.has("seq2seq"):
        words = Sizes(vocabulary=len(model.source.tokens.weight), target_vocabulary=len(model.target.tokens.weight))
        return family.build(model.config, words, seed)
    if family.has_any("causal_lm", "masked_lm"):
        return family.build(model.config, Sizes(vocabulary=len(model.embed.tokens.weight), heads=_heads(model)), seed)
    raise UserError(f"a {type(model).__name__} cannot be compared with one of random weights yet.")


def _heads(model: nn.Module) -> Heads:
    """Return the heads that a body has; that of words is called `head`."""
    there = {name for name, _ in model.named_children()}
    asked: dict[str, Any] = {field.name: field.name in there for field in fields(Heads)}
    asked |= {name: len(getattr(model, name).project.weight) for name in ("classes", "tags") if name in there}
    return Heads(**{**asked, "words": "head" in there})


SAID = 25  # tokens, and then the same again
TEXTS = 8
SEED = 0


def repeated(answers: Predictor, texts: int = TEXTS) -> list[Subject]:
    """Always the same ones. Where positions end early, they are shorter."""
    model = getattr(answers.model, "body", answers.model)
    tokenizer = must_read_pieces(answers)
    known = sorted(set(tokenizer.raw.get_vocab(with_added_tokens=True).values()) - tokenizer.specials)
    room = model.config.context
    said = SAID if room is None else min(SAID, (room - 2) // 2)
    generator = torch.Generator().manual_seed(SEED)
    found = []
    for _ in range(texts):
        chosen = torch.randint(len(known), (said,), generator=generator).tolist()
        found.append(_subject(model, tokenizer, [known[n] for n in chosen] * 2))
    return found


def _subject(model: Any, tokenizer: Tokenizer, ids: Sequence[int]) -> Subject:
    device, family = next(model.parameters()).device, family_of(model)
    text = TokenRow.given(tokenizer, ids, range(len(ids)))
    found: dict[str, TokenRow] = {}
    if family.has("seq2seq"):  # the target says the source's numbers, whatever they mean there
        last = len(model.target.tokens.weight) - 1
        spoken = TokenRow(text.tokens, tuple(min(i, last) for i in ids), text.words, text.special)
        found = {"encoder": text + TokenRow.mark(tokenizer, EOS), "decoder": TokenRow.mark(tokenizer, SOS) + spoken}
    elif family.has("causal_lm"):
        found = {"decoder": text}
    else:
        around = marks_of(model.config, tokenizer.roles)
        found = {"encoder": TokenRow.mark(tokenizer, around.start) + text + TokenRow.mark(tokenizer, around.end)}
    rows = {stack: torch.tensor([side.ids], device=device) for stack, side in found.items()}

    def hidden(copies: int) -> Tensor:
        given = {stack: ids_1L.expand(copies, -1) for stack, ids_1L in rows.items()}
        if family.has("causal_lm"):
            return model.hidden(given["decoder"])
        source_BM = given["encoder"]
        lengths_B = torch.full((copies,), source_BM.shape[1], device=device)
        if family.has("seq2seq"):
            return model.hidden(source_BM, lengths_B, given["decoder"])
        return model.hidden(source_BM, lengths_B)

    nothing_L = torch.full((len(ids),), -100)
    return Subject(model, "random tokens, said twice", found, hidden, nothing_L, None, str, None, hidden)


def trees(answers: Predictor, sentences: Sequence[Parsed]) -> Iterator[Tree]:
    """Yield a tree for each sentence that the model can read; of a translator, over its source."""
    tokenizer, some, why = must_read_pieces(answers), False, "it reads other pieces than those of the text"
    for sentence in sentences:
        target = "." if isinstance(answers, Translator) else None
        try:
            subject = subject_of(answers, sentence.text, target)
        except UserError as refused:
            why = str(refused)
            continue
        stack = "encoder" if "encoder" in subject.sides else "decoder"
        side = subject.sides[stack]
        (placed,) = tokenizer.encode_placed([sentence.text])
        text = [n for n, special in enumerate(side.special) if not special]
        if [side.ids[n] for n in text] != placed.ids:
            continue  # its model reads other pieces than the sentence's own
        words = np.full(len(side), -1)
        words[text] = _words(sentence, placed.starts, placed.ends)
        some = True
        heads, relations = zip(*((word.head, word.relation) for word in sentence.words))
        yield Tree(subject, stack, tuple(words.tolist()), heads, relations)
    if not some:
        raise UserError(f"{sentences[0].place}: this model can read none of the {len(sentences)} sentences: {why}")


def _words(sentence: Parsed, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the word of each piece's first letter, -1 for none; of words that share letters, the first."""
    found = np.full(len(starts), -1)
    for n, word in reversed(list(enumerate(sentence.words))):
        found[(starts >= word.start) & (starts < word.end) & (starts < ends)] = n
    return found

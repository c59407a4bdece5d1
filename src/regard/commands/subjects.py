"""Any model of the project as a subject for lens: one text, the texts of a test set, sentences of a treebank, or random tokens.

`fresh` is what an analysis is compared with: the same model before it was trained, of the same family, size and vocabulary, with
the weights that training starts from. What a trained model does is worth telling only if that one does not do it.

`repeated` gives random tokens that are said twice: heads that copy what came before have nothing else to go by.
Olsson et al. 2022, *In-context learning and induction heads*. Random, so that no bigram of the training text helps.

`trees` says which tokens of a sentence belong to which words of its tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.core.terminal import print_stderr
from regard.data.sources.conllu import Parsed
from regard.families import family_of, marks_of
from regard.families.base import Heads, Sizes
from regard.families.classifier import classifier
from regard.lens.analyses.relations import Tree
from regard.lens.subject import Subject, TokenRow
from regard.runs.folder import Run
from regard.runs.pretrained import recipe_of, start_of
from regard.runs.protocols import Inspectable, Predictor, Traceable, capability
from regard.runs.recipe import HUB, Recipe
from regard.runs.task import TASKS
from regard.tasks.notices import must_read_pieces
from regard.tasks.registry import is_public
from regard.text.specials import EOS, SOS
from regard.text.tokenizer import Tokenizer


def subject_of(predictor: Predictor, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
    """Return `text` as this model reads it, scored on `target`; by default on the model's own output, or on the text itself.

    A translator's target is a translation; a captioner's, a caption, and its text is the file of an image; a language model's,
    what follows the text; a masked model's, a word for each blank; a tagger's, a tag for each word; a classifier's, a label; a
    regressor's, a number; a question answerer's, the answer; an embedder's, a text like this one. `hypothesis` is for models that
    search: the rank, from 0, of one of the outputs, instead of a target.
    """
    if not text.strip():
        raise UserError("the text is empty; give a sentence to look into.")
    if target is not None and not target.strip():
        raise UserError("the target is empty; give what the model should say, or leave it out.")
    if hypothesis is not None and target is not None:
        raise UserError(f"both a target and --hypothesis {hypothesis} were given; give one of them.")
    if hypothesis is not None and not isinstance(predictor, Traceable):
        raise UserError(f"--hypothesis {hypothesis} is for models that write, and this one does not; leave it out.")
    inspectable = capability(predictor, Inspectable, "attention that lens can show", "give a model that reads or writes text")
    must_attend_over_time(predictor.model)
    if not family_of(predictor.model).has("attention"):
        raise UserError("an ELMo has no attention to look into; see what it makes of a word with --word WORD instead of --show.")
    body = getattr(predictor.model, "body", predictor.model)
    if latents := getattr(getattr(body, "config", None), "latents", 0):
        raise UserError(
            f"tokens of this model attend to each other by way of {latents} latents only, and this view draws attention from "
            "token to token; a probe in Python records all of it (docs/guides/perceiver.md)."
        )
    return inspectable.subject(text, target, hypothesis)


def must_attend_over_time(model: Any) -> None:
    """Refuse a model that forecasts without attention."""
    if family_of(model).has("forecasting") and not family_of(model).has("attention"):
        raise UserError(
            "this model has no attention to look into: its forecast is a linear map of the window; give a run of patchtst, "
            "itransformer or forecaster."
        )


def recipe_with_data(name: str, data: Path | None, *, split: str = "test") -> Recipe:
    """The recipe of a run or a public checkpoint, with `data` as its test set; without any, a split of the run's own."""
    given = [] if data is None else [f"data.test={data}"]
    if is_public(name):
        if data is None:
            raise UserError(f"{name} has no data of its own; give --data FILE with texts as its task has them.")
        return recipe_of(start_of(name.removeprefix(HUB)), given)
    recipe = Run.open(name).recipe_with(given)
    if data is None:
        where = getattr(recipe.data, split, ())
        if not where:
            raise UserError(f"{name} has no data.{split}; give --data FILE with texts as its task has them.")
        recipe = replace(recipe, data=replace(recipe.data, test=where))
    return recipe


def subjects(predictor: Predictor, recipe: Recipe, most: int) -> Iterator[Subject]:
    """Yield the first `most` texts of the test set that the model can read; the number of the others, and why, is printed."""
    found, refused = 0, list[UserError]()
    inspectable = capability(predictor, Inspectable, "attention that lens can show", "give a model that reads or writes text")
    for text, target in islice(inspectable.test_texts(TASKS[recipe.task.name].read_test(recipe)), 2 * most):
        try:
            subject = subject_of(predictor, text, target)
        except UserError as error:
            refused.append(error)
            continue
        found += 1
        yield subject
        if found == most:
            break
    if refused and not found:
        raise refused[0]
    if refused:
        print_stderr(f"{len(refused)} of {found + len(refused)} texts are left out; the first because {refused[0]}")


def fresh(answers: Predictor, seed: int = 0) -> Any:
    """Return the same predictor with the weights that training starts from."""
    model = fresh_model(answers.model, seed)
    return replace(answers, model=model.to(next(answers.model.parameters()).device).eval())  # type: ignore[type-var]


def fresh_model(model: Any, seed: int = 0) -> nn.Module:
    """Return a model of the same family, size and heads with the weights that training with this seed starts from."""
    family = family_of(model)
    if hasattr(model, "body") and hasattr(model, "classes"):
        return classifier(model.body.config, len(model.body.embed.tokens.weight), len(model.classes.project.weight), seed)
    if family.has("image_classification") and hasattr(model, "classes"):
        return family.build(model.config, Sizes(vocabulary=0, heads=Heads(classes=len(model.classes.project.weight))), seed)
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
        lengths_B = torch.full((copies,), given["encoder"].shape[1], device=device)
        target = (given["decoder"],) if "decoder" in given else ()
        return model.hidden(given["encoder"], lengths_B, *target)

    nothing_L = torch.full((len(ids),), -100)
    return Subject(model, "random tokens, said twice", found, hidden, nothing_L, None, str, None, hidden)


def trees(answers: Predictor, sentences: Sequence[Parsed]) -> Iterator[Tree]:
    """Yield a tree for each sentence that the model can read; of a translator, over its source."""
    tokenizer, some, why = must_read_pieces(answers), False, "it reads other pieces than those of the text"
    for sentence in sentences:
        target = "." if family_of(answers.model).has("seq2seq") else None
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

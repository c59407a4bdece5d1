"""Models that read tokens and say something of each, as subjects: what was here, is it the text's own, which tag has it.

                 reads (encoder)         says                          is scored on
filler           [CLS] text [SEP]        a word for each token         the blanks, if any; else every token of the text
judge            [CLS] text [SEP]        own or replaced, each token   that all are the text's own
tagger           [CLS] words [SEP]       a tag for each token          the tags of words, at their first pieces
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import UserError, nearest
from regard.core.packing import IGNORED
from regard.families import family_of, marks_of
from regard.families.bert import BERT
from regard.lens.subject import Subject, TokenRow
from regard.tasks.masked_lm.predict import FillMask, ReplacedTokenDetector
from regard.tasks.tagging.predict import Tagger
from regard.tasks.translation.inspect import words_of
from regard.text.offsets import word_places
from regard.text.tokenizer import TYPED, Tokenizer

JUDGED = ("own", "replaced")


def of_filler(filler: FillMask, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
    """Return the subject of a text; `target` has a word for each blank, by default the likeliest one."""
    side = _filled_in(filler, text) if TYPED.search(text) else TokenRow.typed(filler.tokenizer, text)
    side = _between(side, filler.tokenizer, filler, text)
    hidden = reads(filler.model, side)
    blanks_L = torch.tensor(side.ids) == filler.blanks.mask
    targets_L = torch.tensor([IGNORED if special else i for i, special in zip(side.ids, side.special)])
    if blanks_L.any():
        with torch.no_grad():
            likeliest_L = filler.model.head(hidden(1))[0, :, : len(filler.tokenizer)].argmax(-1).cpu()
        targets_L = torch.full_like(targets_L, IGNORED)
        targets_L[blanks_L] = likeliest_L[blanks_L] if target is None else _fillings(filler, target, int(blanks_L.sum()))
    elif target is not None:
        raise UserError(f"the text has no blank that {target!r} could fill; write {filler.blanks.name} in place of a word.")
    return subject_of(filler.model, text, side, hidden, filler.model.head, targets_L, _names(filler.tokenizer), side)


def of_judge(judge: ReplacedTokenDetector, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
    if target is not None:
        raise UserError("this model judges the words that are there, so it is given no others; leave the target out.")
    if TYPED.search(text):
        raise UserError(f"{text[:40]!r} has a blank, but this model judges words and fills in none; give a whole text.")
    side = _between(TokenRow.typed(judge.tokenizer, text), judge.tokenizer, judge, text)
    targets_L = torch.tensor([IGNORED if special else 0 for special in side.special])

    def own_or_not(x_BLD: Tensor) -> Tensor:
        replaced_BL = judge.model.replaced(x_BLD)
        return torch.stack([torch.zeros_like(replaced_BL), replaced_BL], -1)

    return subject_of(judge.model, text, side, reads(judge.model, side), own_or_not, targets_L, JUDGED.__getitem__, side)


def of_tagger(tagger: Tagger, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
    """`target` has a tag for each word, by default those that the model finds."""
    words, tokenizer = [text[a:b] for a, b in word_places(text)], tagger.reader.tokenizer
    if not words:
        raise UserError(f"{text[:40]!r} has no word to tag; give a text with words in it.")
    rows, places = tagger.reader.encode([words])
    if len(rows) > 1:
        raise UserError(f"the text is more than the {tagger.reader.window:,} tokens that this model sees together; give less.")
    ids = rows.flat.tolist()
    numbers = np.searchsorted(places.flat, np.arange(1, len(ids) - 1), side="right") - 1
    side = (
        TokenRow.mark(tokenizer, ids[0])
        + TokenRow.given(tokenizer, ids[1:-1], numbers.tolist())
        + TokenRow.mark(tokenizer, ids[-1])
    )
    tags = tagger.tag_words([words])[0].tags if target is None else target.split()
    if len(tags) != len(words):
        raise UserError(f"{len(tags)} tags were given for {len(words)} words ({' '.join(words)[:60]}); give one for each.")
    for tag in tags:
        if tag not in tagger.tags.names:
            raise UserError(f"the tag {tag!r} is not one that this model knows{nearest(tag, tagger.tags.names)}")
    targets_L = torch.full((len(ids),), IGNORED)
    targets_L[torch.from_numpy(places.flat.astype(np.int64))] = torch.tensor([tagger.tags.names.index(tag) for tag in tags])
    name, model = tagger.tags.names.__getitem__, cast(BERT, tagger.model)  # an ELMo has no attention, and does not come here
    return subject_of(model, text, side, reads(model, side), model.tags, targets_L, name, side)


def subject_of(
    body: Any,
    title: str,
    side: TokenRow,
    hidden: Callable[[int], Tensor],
    says: Callable[[Tensor], Tensor],
    targets: Tensor | Sequence[int],
    choices: Callable[[int], str],
    outputs: TokenRow | None = None,
) -> Subject:
    """Return the subject of a text that is read: `says` is logits_BLV of every token or output, or logits_BV of one output."""
    name, words = "decoder" if family_of(body).has("causal_lm") else "encoder", getattr(body, "head", None)
    targets_L = torch.as_tensor(targets)
    return Subject(
        model=body,
        title=title,
        sides={name: side},
        forward=lambda copies: says(hidden(copies)).reshape(copies, len(targets_L), -1),
        targets_L=targets_L,
        outputs=outputs,
        choices=choices,
        head=None if words is None else words_of(getattr(body, name), words),
        hidden=hidden,
        nested=family_of(body).has("nested_documents"),
    )


def reads(model: BERT, side: TokenRow) -> Callable[[int], Tensor]:
    ids_L = torch.tensor(side.ids, device=next(model.parameters()).device)

    def hidden(copies: int) -> Tensor:
        return model.hidden(ids_L.expand(copies, -1), torch.full((copies,), len(ids_L), device=ids_L.device))

    return hidden


def _between(side: TokenRow, tokenizer: Tokenizer, answers: FillMask | ReplacedTokenDetector, text: str) -> TokenRow:
    """The text between the marks of the family."""
    around, room = marks_of(answers.recipe.model, tokenizer.roles), answers.recipe.model.context
    if room is not None and len(side) + 2 > room:
        raise UserError(f"{text[:40]!r} is {len(side) + 2:,} tokens long, but the model has {room:,} positions; give less.")
    return TokenRow.mark(tokenizer, around.start) + side + TokenRow.mark(tokenizer, around.end)


def _filled_in(filler: FillMask, text: str) -> TokenRow:
    """A text with blanks: what stands between them is read piece by piece."""
    found, run = TokenRow((), (), (), ()), list[int]()
    for i in [*filler.blanks.encode([text])[0], None]:
        if i is not None and i != filler.blanks.mask:
            run.append(i)
            continue
        found, run = found + TokenRow.written(filler.tokenizer, run), []
        found = found if i is None else found + TokenRow.given(filler.tokenizer, [i], [0])
    return found


def _fillings(filler: FillMask, target: str, blanks: int) -> Tensor:
    """A word for each blank, of one piece each: a blank is one."""
    words, ids = target.split(), list[int]()
    if len(words) != blanks:
        raise UserError(f"{len(words)} words were given for {blanks} blanks ({target!r}); give one for each.")
    for word in words:
        spellings = [filler.tokenizer.encode(spelled) for spelled in (f" {word}", word)]
        single = next((ids[0] for ids in spellings if len(ids) == 1), None)
        if single is None or single == filler.tokenizer.roles.unk:
            how = "is not in" if single is not None else f"is {len(spellings[1])} pieces of"
            raise UserError(f"{word!r} {how} this vocabulary, but a blank is one of its pieces; give another word.")
        ids.append(single)
    return torch.tensor(ids)


def _names(tokenizer: Tokenizer) -> Callable[[int], str]:
    """A public table of words may be longer than its vocabulary."""
    return lambda i: tokenizer.tokens([i])[0] if i < len(tokenizer) else f"<{i}>"

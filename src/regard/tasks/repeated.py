"""Random tokens that are said twice, before any model: heads that copy what came before have nothing else to go by.

Olsson et al. 2022, *In-context learning and induction heads*. Random, so that no bigram of the training text helps.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.families.classifier import Body, Classifier, marks
from regard.families.encoder_decoder import EncoderDecoder
from regard.families.gpt import GPT
from regard.families.sizes import context
from regard.lens.subject import Side, Subject
from regard.tasks import sides
from regard.tasks.task import Answers
from regard.tasks.unknown import must_read_pieces
from regard.text.tokenizer import Tokenizer
from regard.text.vocabulary import EOS, SOS

SAID = 25  # tokens, and then the same again
TEXTS = 8
SEED = 0


def repeated(answers: Answers, texts: int = TEXTS) -> list[Subject]:
    """Always the same ones. Where positions end early, they are shorter."""
    model = answers.model.body if isinstance(answers.model, Classifier) else answers.model
    tokenizer = must_read_pieces(answers)
    known = sorted(set(tokenizer.raw.get_vocab(with_added_tokens=True).values()) - tokenizer.specials)
    room = context(model.config)
    said = SAID if room is None else min(SAID, (room - 2) // 2)
    generator = torch.Generator().manual_seed(SEED)
    found = []
    for _ in range(texts):
        chosen = torch.randint(len(known), (said,), generator=generator).tolist()
        found.append(_subject(model, tokenizer, [known[n] for n in chosen] * 2))
    return found


def _subject(model: EncoderDecoder | Body, tokenizer: Tokenizer, ids: Sequence[int]) -> Subject:
    device = next(model.parameters()).device
    text = sides.given(tokenizer, ids, range(len(ids)))
    found: dict[str, Side] = {}
    if isinstance(model, EncoderDecoder):  # the target says the source's numbers, whatever they mean there
        last = len(model.target.tokens.weight) - 1
        spoken = Side(text.tokens, tuple(min(i, last) for i in ids), text.words, text.special)
        found = {"encoder": text + sides.mark(tokenizer, EOS), "decoder": sides.mark(tokenizer, SOS) + spoken}
    elif isinstance(model, GPT):
        found = {"decoder": text}
    else:
        around = marks(model.config, tokenizer.roles)
        found = {"encoder": sides.mark(tokenizer, around.start) + text + sides.mark(tokenizer, around.end)}
    rows = {stack: torch.tensor([side.ids], device=device) for stack, side in found.items()}

    def hidden(copies: int) -> Tensor:
        given = {stack: ids_1L.expand(copies, -1) for stack, ids_1L in rows.items()}
        if isinstance(model, GPT):
            return model.hidden(given["decoder"])
        source_BM = given["encoder"]
        lengths_B = torch.full((copies,), source_BM.shape[1], device=device)
        if isinstance(model, EncoderDecoder):
            return model.hidden(source_BM, lengths_B, given["decoder"])
        return model.hidden(source_BM, lengths_B)

    nothing_L = torch.full((len(ids),), -100)
    return Subject(model, "random tokens, said twice", found, hidden, nothing_L, None, str, None, hidden)

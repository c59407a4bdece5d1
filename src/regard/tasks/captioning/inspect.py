"""A captioner with an image laid before it, as a subject: it reads cells, and is scored on the words of a caption.

A cell is called by its row and column, both from 1. Its own vector, before its place is added, is to it what a word's is to a
word, so that cells can be taken away and gradients arrive at them (`lens/analyses/gradients.py`).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.core.packing import IGNORED
from regard.lens.subject import Subject, TokenRow
from regard.model.block import Stack
from regard.tasks.captioning.predict import CaptionGenerator, longest
from regard.tasks.translation.inspect import words_of
from regard.text.specials import EOS, SOS


def of_image(writer: CaptionGenerator, image_YXC: np.ndarray, name: str, target: str | None) -> Subject:
    """Return the subject of an image with a caption: the given one, or the model's own."""
    model, tokenizer = writer.model, writer.tokenizer
    if target is not None:
        side, told, finished = TokenRow.typed(tokenizer, target), target, True
    else:
        best = writer.write(image_YXC[None])[0][0]
        side, told, finished = TokenRow.written(tokenizer, best.ids), best.text, best.finished
    room = longest(model.config)
    decoder, outputs = TokenRow.mark(tokenizer, SOS) + side, side + TokenRow.mark(tokenizer, EOS)
    if len(decoder) > room and target is not None:
        raise UserError(f"the caption is {len(decoder):,} tokens long, but this model writes {room:,} at most; give less.")
    decoder, outputs = decoder[:room], outputs[:room]
    targets_L = torch.tensor(outputs.ids)
    if not finished and len(outputs) > len(side):
        targets_L[-1] = IGNORED  # it was cut off, and wrote no end
    image = torch.from_numpy(image_YXC).to(writer.device)
    target_L = torch.tensor(decoder.ids, device=writer.device)

    def hidden(copies: int) -> Tensor:
        return model.hidden(image.expand(copies, -1, -1, -1), target_L.expand(copies, -1))

    stack = model.writer.decoder
    return Subject(
        model=model,
        title=f"{name} → {told}",
        sides={"encoder": cells(model.config.side), "decoder": decoder},
        forward=lambda copies: model.head(hidden(copies)),
        targets_L=targets_L,
        outputs=outputs,
        choices=lambda i: tokenizer.tokens([i])[0],
        head=words_of(stack, model.head) if isinstance(stack, Stack) else None,
        hidden=hidden,
    )


def cells(side: int) -> TokenRow:
    """Row by row, as the model reads them; none is a mark, and each is a word of its own."""
    count = side * side
    names = tuple(f"{row + 1},{column + 1}" for row in range(side) for column in range(side))
    return TokenRow(names, tuple(range(count)), tuple(range(count)), (False,) * count)

"""An image before a model that draws images, as a subject: its pixels as the model reads them, scored as it would draw them.

Studio has drawings made of pixels it holds already, so what a request says never names a file: `wish_of` takes pixels.

Dims: L tokens that are read, N levels of an image, Y X rows and columns, C colours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import UserError, nearest
from regard.data.batching.pixels import shrunk
from regard.lens.subject import ImageTokens, Subject, TokenRow

if TYPE_CHECKING:
    from regard.tasks.image_generation.predict import ImageGenerator, Wish

COLOURS = ("red", "green", "blue")


def subject_of_image(generator: ImageGenerator, image_YXC: np.ndarray, name: str, target: str | None = None) -> Subject:
    """Return the subject of an image of the model's size; `target` is the class that it is read as, the likeliest if None."""
    model, levels = generator.model, generator.levels
    order, config = model.order, model.config
    if order.coupled:
        raise UserError("the three colours of a pixel are one token of this model, which has no list of choices to show.")
    wish = read_wish(generator, image_YXC, name, target)
    level_1N = levels.of(image_YXC[None])
    class_1 = None if wish.class_ is None else torch.tensor([wish.class_])
    small_1M = None if wish.small_M is None else torch.from_numpy(wish.small_M[None].astype(np.int64))
    ids_1L = order.ids(torch.from_numpy(level_1N.astype(np.int64)), class_1, small_1M).to(generator.device)
    read_1L, targets_L = ids_1L[:, :-1], ids_1L[0, 1:].clone()
    targets_L[: order.prefix] = -100  # a small image is read, not drawn
    side = _tokens(order.small, order.tokens, "small ") + _start(wish.class_, levels.classes)
    row = side + _tokens(order.side, order.tokens)[:-1]
    read_YXC = levels.images(level_1N, config.image_size)[0]

    def hidden(copies: int) -> Tensor:
        return model.hidden(read_1L.expand(copies, -1))

    return Subject(
        model=model,
        title=name if wish.class_ is None or not levels.classes else f"{name} as {levels.classes[wish.class_]}",
        sides={"decoder": row},
        forward=lambda copies: model.scores(model.head(hidden(copies))),
        targets_L=targets_L.cpu(),
        outputs=None,
        choices=lambda level: f"level {level}",
        head=lambda x: model.scores(model.head(x)),
        hidden=hidden,
        image=ImageTokens(read_YXC, order.side, order.side, order.prefix + 1, stack="decoder", tokens=order.tokens, ahead=1),
    )


def read_wish(generator: ImageGenerator, image_YXC: np.ndarray, name: str, target: str | None = None) -> Wish:
    """Return what an image would be if it were asked for whole: its class, and the small image that stands before it."""
    from regard.tasks.image_generation.predict import Wish

    levels, config = generator.levels, generator.model.config
    small_M = levels.of(shrunk(image_YXC[None], config.small))[0] if config.small else None
    if target is not None:
        if target not in levels.classes:
            known = f"{target!r} is no class of this model{nearest(target, levels.classes)}"
            raise UserError(known if levels.classes else "this model draws images without classes; leave the target out.")
        return Wish(name, levels.of(image_YXC[None])[0], levels.classes.index(target), small_M)
    return generator._with_class(Wish(name, levels.of(image_YXC[None])[0], None, small_M))


def wish_of(generator: ImageGenerator, text: str, image_YXC: np.ndarray | None) -> Wish:
    """Return what is to be drawn: an image of a class, any image, or, of an image, the rest of it or a larger one."""
    from regard.tasks.image_generation.predict import Wish

    classes, config = generator.levels.classes, generator.model.config
    if image_YXC is not None:
        wish = read_wish(generator, image_YXC, text)
        rows = 0 if config.small else max(1, round(generator.data.keep * config.image_size))
        return wish._replace(given_L=wish.given_L[: rows * config.image_size * config.channels])
    if config.small:
        raise UserError("this model enlarges small images; choose one, and let it be drawn again.")
    if text and text not in classes:
        raise UserError(f"{text[:60]!r} is no class of this model{nearest(text[:60], classes)}")
    return Wish(text, np.zeros(0, np.int64), classes.index(text) if text else 0 if config.classes else None)


def _tokens(side: int, tokens: int, before: str = "") -> TokenRow:
    """Return the names of an image's tokens: row and column, and the colour where each is a token."""
    colours = [f" {colour}" for colour in COLOURS] if tokens == len(COLOURS) else [""] * tokens
    names = tuple(f"{before}{y + 1},{x + 1}{c}" for y in range(side) for x in range(side) for c in colours)
    numbers = tuple(range(len(names)))
    return TokenRow(names, numbers, tuple(n // tokens for n in numbers), (bool(before),) * len(names))


def _start(class_: int | None, classes: tuple[str, ...]) -> TokenRow:
    name = "[start]" if class_ is None or not classes else f"[{classes[class_]}]"
    return TokenRow((name,), (0,), (0,), (True,))

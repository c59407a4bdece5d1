"""A trained image model: it draws images, completes those that are begun, enlarges small ones, and scores how likely images are.

What it is asked for is a text: nothing, for an image of any kind; the name of a class; or the file of an image, of which
`data.keep` of the rows stay, or which is read as the small image where the model was trained for that. A class that is not named
is the one by which what is given is likeliest.

Dims: N images, L levels of an image, Y X rows and columns, C colours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from regard.core.atomic import check_place
from regard.core.errors import UserError, nearest
from regard.core.files import draft_folder, write_whole
from regard.core.rng import derive_seed
from regard.core.terminal import Emit
from regard.data.batching.pixels import PixelData, shrunk
from regard.data.image_config import DrawingConfig
from regard.data.labels import Labels
from regard.data.sources.image_arrays import FILES
from regard.data.sources.image_sets import Form, read_image_set
from regard.data.sources.images import read_image
from regard.decode.algorithm import CapturedGraphs, sessions_on
from regard.decode.config import DecodeConfig, Sampling
from regard.decode.request import SearchRequest
from regard.decode.search import search
from regard.families import family_of
from regard.families.base import Sizes
from regard.families.image_transformer import ImageTransformer
from regard.metrics.pixels import PixelScores
from regard.model.vision.colour_state import ColourByColour
from regard.objectives.pixels import PixelsConfig, PixelsLoss, bits
from regard.runs.folder import Run
from regard.runs.load import load_model, must_be_as_trained, ready
from regard.runs.prepared import losses_of, mean_losses
from regard.runs.pretrained import InitCheckpoint
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe
from regard.tasks.image_generation.levels import Levels
from regard.tasks.image_generation.sheet import Row, half_drawn, in_rows, png_of, sheet

if TYPE_CHECKING:
    from PIL import Image

    from regard.lens.subject import Subject

LABELS, PALETTE, DRAWN = "labels.json", "palette_VC", "builtin:"
NEVER = -1  # no token: an image ends when it is full
USED = ("search", "temperature", "top_k", "top_p", "min_p", "seed", "samples", "batch_tokens", "weights")
"""Settings of [decode] that mean something for an image."""

Seen = Callable[[np.ndarray, int], None]
"""Called with an image as far as it is drawn, image_YXC, and the number of pixels that are there."""


class Wish(NamedTuple):
    """One image to be drawn: its class, and the pixels that are given."""

    text: str
    given_L: np.ndarray  # levels of the pixels that stay
    class_: int | None = None
    small_M: np.ndarray | None = None
    shown: tuple[np.ndarray, ...] = ()  # images that stand before what is drawn


class Drawn(NamedTuple):
    image_YXC: np.ndarray
    bits_per_dim: float  # of what was drawn

    def as_dict(self) -> dict[str, Any]:
        return {"bits_per_dim": self.bits_per_dim, "pixels": self.image_YXC.tolist()}


@dataclass
class ImageGenerator:
    model: ImageTransformer
    levels: Levels
    decode: DecodeConfig
    data: DrawingConfig
    sessions: CapturedGraphs | None = None  # on a GPU: recorded searches, to be replayed

    tokenizer = None
    example = ""

    @classmethod
    def of(cls, source: Run | InitCheckpoint, recipe: Recipe, device: torch.device) -> ImageGenerator:
        """Open a run, or a public folder."""
        check_decoding(recipe.decode)
        classes: tuple[str, ...] = ()

        def build() -> Any:
            return family_of(recipe.model).build(recipe.model, Sizes(vocabulary=recipe.model.levels), 0)

        if isinstance(source, Run):
            must_be_as_trained(source, recipe)
            model = load_model(source, build)
            classes = Labels.load(source.folder / LABELS).names if recipe.model.classes > 1 else ()
        else:
            model = source.open(build)
        model = ready(model, recipe.decode.weights, device)
        # Which colour of a coupled pixel comes next the host counts, so its steps are not recorded.
        sessions = None if recipe.model.coupled else sessions_on(device)
        return cls(model, Levels(recipe.model, palette_of(model), classes), recipe.decode, recipe.data, sessions)

    @property
    def vocabularies(self) -> dict[str, Vocabulary]:
        return {LABELS: Labels(self.levels.classes, 1)} if len(self.levels.classes) > 1 else {}

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @cached_property
    def _loss(self) -> PixelsLoss:
        return PixelsLoss(PixelsConfig())

    # --- drawing -----------------------------------------------------------------------------------------------------------
    def wish(self, text: str) -> Wish:
        """Return what a text asks for."""
        text, config = text.strip(), self.model.config
        if text in self.levels.classes:
            return self._must_be_whole(Wish(text, _nothing(), self.levels.classes.index(text)))
        if Path(text).suffix.lower() in FILES or text.startswith(DRAWN):
            return self._of_image(text)
        if text:
            known = f" or the name of a class{nearest(text, self.levels.classes)}" if self.levels.classes else "."
            raise UserError(f"{text!r} is no image file; give one ({', '.join(FILES[:3])} ...){known}")
        return self._must_be_whole(Wish("", _nothing(), None if not config.classes else 0))

    def _must_be_whole(self, wish: Wish) -> Wish:
        if side := self.model.config.small:
            raise UserError(
                f"this model enlarges small images of {side} x {side} pixels; give the file of one, such as small.png."
            )
        return wish

    def _of_image(self, name: str) -> Wish:
        config = self.model.config
        if config.small:
            small_YXC = self._small(name)
            level_1M = self.levels.of(small_YXC[None])
            return self._with_class(Wish(name, _nothing(), None, level_1M[0], (small_YXC,)))
        rows = round(self.data.keep * config.image_size)
        if not 0 < rows < config.image_size:
            raise UserError(
                f"data.keep={self.data.keep:g} keeps {rows} of the {config.image_size} rows of an image; give a share that has "
                "some to keep and leaves some to draw, such as 0.5."
            )
        whole_YXC = _read(name, self.levels.form(self.data.resize))
        pixels, channels = rows * config.image_size, config.channels
        begun_YXC = half_drawn(whole_YXC, pixels)
        return self._with_class(
            Wish(name, self.levels.of(whole_YXC[None])[0, : pixels * channels], None, None, (whole_YXC, begun_YXC))
        )

    def _small(self, name: str) -> np.ndarray:
        """Return a small image; a larger one is made small as those of training were, by the means of squares."""
        side = self.model.config.small
        if not name.startswith(DRAWN) and max(read_image(Path(name)).size) <= side:
            return _read(name, self.levels.form(self.data.resize, side))
        small_YXC: np.ndarray = shrunk(_read(name, self.levels.form(self.data.resize))[None], side)[0]
        return small_YXC

    @torch.no_grad()
    def _with_class(self, wish: Wish) -> Wish:
        """Choose the class by which the given pixels are likeliest; without any, the first."""
        classes = self.model.config.classes
        if not classes or not len(wish.given_L):
            return wish._replace(class_=0 if classes else None)
        level_NL = np.repeat(wish.given_L[None], classes, 0)
        data = PixelData(
            level_NL, np.arange(classes), None if wish.small_M is None else np.repeat(wish.small_M[None], classes, 0)
        )
        losses = [self._loss(self.model, data.batch(np.array([n])).to(self.device)).total for n in range(classes)]
        return wish._replace(class_=int(torch.stack(losses).argmin()))

    def write(self, wishes: Sequence[Wish], first: int = 0, seen: Seen | None = None) -> list[list[Drawn]]:
        """Return the samples of each wish. `seen` is shown the first of them as it is drawn."""
        asked = [(number, nth) for number in range(len(wishes)) for nth in range(self.decode.samples)]
        drawn: list[list[Drawn]] = [[] for _ in wishes]
        most = max(1, self.decode.batch_tokens // self.model.order.length)
        for start in range(0, len(asked), most):
            part = asked[start : start + most]
            seeds = [derive_seed(self.decode.seed, "sample", first + number, nth) for number, nth in part]
            listener = None if seen is None or start else self._listener(wishes[0], seen)
            for (number, _), found in zip(part, self._search([wishes[number] for number, _ in part], seeds, listener)):
                drawn[number].append(found)
        return drawn

    def _search(self, wishes: Sequence[Wish], seeds: Sequence[int], listener: Any) -> Iterator[Drawn]:
        order, method = self.model.order, self.decode.method
        assert isinstance(method, Sampling)
        prompts = [self._ids(wish) for wish in wishes]
        lengths_B = torch.tensor([len(prompt) - 1 for prompt in prompts])
        ids_BL = torch.zeros(len(prompts), max(1, int(lengths_B.max())), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids_BL[row, : len(prompt) - 1] = prompt[:-1]
        ids_BL = ids_BL[:, : int(lengths_B.max())]
        encoded = self.model.start(ids_BL.to(self.device), lengths_B.to(self.device))
        whole = order.pixels * (self.model.config.channels if order.coupled else 1)
        limits = [whole - len(wish.given_L) for wish in wishes]
        request = SearchRequest(
            encoded=ColourByColour(encoded) if order.coupled else encoded,
            sos=torch.stack([prompt[-1] for prompt in prompts]).to(self.device),
            eos=NEVER,
            limits=limits,
            method=method,
            seeds=seeds,
            sessions=self.sessions,
            listener=listener,
        )
        for wish, limit, (found,) in zip(wishes, limits, search(request)):
            level_1L = np.concatenate([wish.given_L.astype(np.int64), np.array(found.ids)])[None]
            yield Drawn(self._image(level_1L), bits(-found.logprob) / limit)

    def _ids(self, wish: Wish) -> torch.Tensor:
        class_1 = None if wish.class_ is None else torch.tensor([wish.class_])
        small_1M = None if wish.small_M is None else torch.from_numpy(wish.small_M[None])
        return self.model.order.ids(torch.from_numpy(wish.given_L[None]), class_1, small_1M)[0]

    def _image(self, level_1L: np.ndarray) -> np.ndarray:
        return self.levels.images(level_1L, self.model.config.image_size)[0]

    def _listener(self, wish: Wish, seen: Seen) -> Callable[[int, list[int]], bool]:
        config, level_L = self.model.config, list(wish.given_L)
        whole, channels = config.image_size**2 * config.channels, config.channels

        def listen(row: int, new: list[int]) -> bool:
            if row == 0:
                level_L.extend(new)
                shown_1L = np.array([*level_L, *[0] * (whole - len(level_L))])[None]
                seen(self._image(shown_1L), len(level_L) // channels)
            return False

        return listen

    def draw(self, text: str, seen: Seen | None = None, number: int = 0) -> np.ndarray:
        """Return image_YXC of what a text asks for; `seen` is shown it as it is drawn, sampling is seeded by `number`."""
        one = replace(self, decode=replace(self.decode, samples=1))
        return one.write([self.wish(text)], number, seen)[0][0].image_YXC

    # --- what the commands ask for -------------------------------------------------------------------------------------------
    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """Say in a line how likely each image is that was drawn; as JSON, all its pixels."""
        for n, text in enumerate(texts):
            for found in self.write([self.wish(text)], (first or 0) + n)[0]:
                high, wide, _ = found.image_YXC.shape
                line = f"{wide} x {high} pixels, {found.bits_per_dim:.4f} bits a dimension"
                emit((json.dumps({"prompt": text, **found.as_dict()}) if as_json else line) + "\n")

    def draw_to(self, texts: Sequence[str], output: Path | None, as_json: bool, emit: Emit) -> None:
        """Draw what the texts ask for into a picture of all, or into a folder of single images and that picture.

        Without a text it is an image of each class, or any image."""
        texts = texts or self.levels.classes or ("",)
        if as_json:
            self.predict(texts, None, True, emit)
            return
        if output is None:
            raise UserError("images are written into a file; give --output sheet.png, or --output FOLDER for single ones too.")
        if output.suffix and output.suffix.lower() != ".png":
            raise UserError(f"--output {output}: images are written as .png; give --output {output.with_suffix('.png')}.")
        check_place(output, "--output")
        if not output.suffix and output.exists():
            raise UserError(f"--output {output} is there already; give the name of a new folder.")
        wishes = [self.wish(text) for text in texts]
        drawn = self.write(wishes)
        picture = sheet(*_arranged(wishes, drawn))
        if output.suffix:
            write_whole(output, picture)
        else:
            with draft_folder(output, last="sheet.png") as draft:
                (draft / "sheet.png").write_bytes(picture)
                for n, found in enumerate(one for each in drawn for one in each):
                    (draft / f"{n:03}.png").write_bytes(png_of(found.image_YXC))
        count, side = sum(map(len, drawn)), self.model.config.image_size
        mean = float(np.mean([found.bits_per_dim for each in drawn for found in each]))
        emit(f"{output}: {count} images of {side} x {side} pixels, {mean:.4f} bits a dimension\n")

    # --- looking inside ------------------------------------------------------------------------------------------------------
    def subject(self, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
        """Return an image file, or a built-in one, as the model reads it; `target` is its class."""
        if Path(text).suffix.lower() not in FILES and not text.startswith(DRAWN):
            raise UserError(
                f"{text[:60]!r} is no image; give the file of one ({', '.join(FILES[:3])} ...), which is then looked into."
            )
        return self.image_subject(_read(text, self.levels.form(self.data.resize)), text, target)

    def image_subject(self, image_YXC: np.ndarray, name: str, target: str | None = None) -> Subject:
        from regard.tasks.image_generation.inspect import subject_of_image

        return subject_of_image(self, image_YXC, name, target)

    def pixels(self, picture: Image.Image) -> np.ndarray:
        """Return image_YXC in the form that the model reads."""
        return self.levels.form(self.data.resize).of(picture)

    def test_texts(self, test: Any) -> Iterator[tuple[str, str | None]]:
        raise UserError("the test set of this run is images; give one of them, IMAGE.png.")

    # --- likelihood ----------------------------------------------------------------------------------------------------------
    @torch.no_grad()
    def nats(self, data: PixelData) -> float:
        """Return the negative log-likelihood of a level of these images."""
        size = max(1, self.decode.batch_tokens // self.model.order.length)
        rows = (np.arange(start, min(start + size, len(data))) for start in range(0, len(data), size))
        losses = losses_of(self.model, self._loss, map(data.batch, rows))
        return mean_losses(losses)["nll"]

    def evaluate(self, test: Any) -> PixelScores:
        data = self.levels.data(test.images(self.levels), "test")
        return PixelScores(bits(self.nats(data)), len(data), data.level_NL.shape[1], test.others(self.levels, data))


def _read(name: str, form: Form) -> np.ndarray:
    """Return one image, a file or a built-in one."""
    found = read_image_set((name,), form, labelled=False).pixels_NYXC
    if len(found) > 1:
        raise UserError(f"{name} are {len(found):,} images; give one, such as {name.rstrip('/')}/0.")
    image_YXC: np.ndarray = found[0]
    return image_YXC


def _nothing() -> np.ndarray:
    return np.zeros(0, np.int64)


def _arranged(wishes: Sequence[Wish], drawn: Sequence[Sequence[Drawn]]) -> tuple[list[Row], list[str]]:
    """Return rows of images and what stands above their columns."""
    images = [[found.image_YXC for found in each] for each in drawn]
    if not any(wish.text for wish in wishes):
        return in_rows([image for each in images for image in each]), []
    rows = [Row(Path(wish.text).name, [*wish.shown, *each]) for wish, each in zip(wishes, images)]
    if not wishes[0].shown:
        return rows, []
    given = ["image", "kept"] if len(wishes[0].shown) > 1 else ["small"]
    return rows, [*given, *[f"drawn {n + 1}" for n in range(len(images[0]))]]


def check_decoding(decode: DecodeConfig) -> None:
    """Refuse settings of a search that an image does not have."""
    if decode.search == "beam":
        raise UserError(
            "decode.search=beam looks for the likeliest image, which is an empty one; give decode.search=sample, or greedy."
        )
    others = [name for name in vars(decode) if name not in USED]
    if changed := decode.changed(others):
        raise UserError(f"decode.{changed[0]} is for texts; an image has a fixed number of pixels: leave it out.")


def palette_of(model: Any) -> np.ndarray | None:
    """Return palette_VC of a model that has one."""
    palette = getattr(model, PALETTE, None)
    return None if palette is None else palette.cpu().numpy()

"""A trained captioner: images in, captions out, with scores and, for those who look, what each word looked at.

Dims: N images, B batch, L words, Y X rows and columns, of pixels or of cells; C colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch
from PIL import Image

from regard.core.errors import UserError
from regard.core.terminal import Emit
from regard.data.batching.pairs import pad
from regard.data.sources.captions import CaptionedImages, open_image
from regard.data.sources.images import square
from regard.decode.algorithm import CapturedGraphs, sessions_on
from regard.decode.config import CHEAPER, DecodeConfig
from regard.decode.rows import SearchRow
from regard.families.captioner import Captioner, CaptionerConfig
from regard.lens.analyses.image_heat import Heat
from regard.metrics.bleu import NONE, CaptionScores, caption_scores, looks_at
from regard.model.probe import not_recording, probe
from regard.model.state.protocol import EncodedInput
from regard.runs.folder import Run, choose_device
from regard.runs.recipe import Recipe
from regard.runs.task import lazy
from regard.tasks.generated_text import NOTHING, GeneratedText, find, source_row, tell
from regard.tasks.predictor import EvaluationResult, TextPredictor, open_model
from regard.text.specials import SOS
from regard.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from regard.lens.subject import Subject

LONGEST = 64  # tokens of a caption, its end counted
SHOWN = 384  # pixels: a picture of heat maps shows the image at most so large


@dataclass
class CaptionGenerator(TextPredictor):
    model: Captioner
    tokenizer: Tokenizer
    decode: DecodeConfig
    sessions: CapturedGraphs | None = None  # on a GPU: recorded searches, to be replayed

    example = "IMAGE.png"
    routes = lazy("regard.tasks.captioning.serve:routes")

    def __post_init__(self) -> None:
        self.sessions = sessions_on(self.device, self.decode.compile)

    @classmethod
    def open(cls, folder: str, device: str | None = None, assignments: Sequence[str] = ()) -> CaptionGenerator:
        run = Run.open(folder)
        return cls.of(run, run.recipe_with(assignments), choose_device(device))

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> CaptionGenerator:
        recipe.decode.must_not_continue("a caption")
        if cheaper := recipe.decode.changed(CHEAPER):
            raise UserError(f"decode.{cheaper[0]} is for models that write from text, not from an image; leave it out.")
        return cls(*open_model(run, recipe, device, lambda size: Captioner(recipe.model, size, recipe.train.seed)), recipe.decode)

    @property
    def room(self) -> int:
        """Return the tokens that a caption may have."""
        return longest(self.model.config)

    @overload
    def __call__(self, image: str) -> str: ...
    @overload
    def __call__(self, image: list[str]) -> list[str]: ...
    def __call__(self, image: str | list[str]) -> str | list[str]:
        """The files' captions. Under a probe the search is not recorded; its result is then seen in one pass."""
        names = [image] if isinstance(image, str) else image
        images_NYXC = np.stack([self._pixels(open_image(name)) for name in names])
        with not_recording(self.model) as looking:
            found = [best[0] for best in self.write(images_NYXC)]
        if looking:
            self._look(images_NYXC, found)
        return found[0].text if isinstance(image, str) else [caption.text for caption in found]

    def write(self, images_NYXC: np.ndarray, first: int = 0) -> list[list[GeneratedText]]:
        """The n_best or the samples of each image."""
        found = list[list[GeneratedText]]()
        for rows in self._parts(len(images_NYXC)):
            part_BYXC = torch.from_numpy(images_NYXC[rows]).to(self.device)
            found += self._search(part_BYXC, [first + n for n in rows])
        return found

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.tokenizer

    def row(self, given: Any) -> SearchRow | None:
        """Return an open image as a row of a search."""
        if not isinstance(given, Image.Image):
            raise UserError("a captioner reads an image, and a text was given; give an image.")
        return source_row(self.decode, self.tokenizer, self._pixels(given), self.model.config.cells, self.room)

    @torch.no_grad()
    def encode_rows(self, rows: Sequence[SearchRow]) -> EncodedInput:
        read: EncodedInput = self.model.start(torch.from_numpy(np.stack([row.read for row in rows])).to(self.device))
        return read

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """A line for each image, or one for each of its n_best; texts are the names of their files."""
        for n, name in enumerate(texts):
            found = self.write(self._pixels(open_image(name.strip()))[None], (first or 0) + n)[0] if name.strip() else [NOTHING]
            tell({"image": name}, found, self.decode, as_json, emit)

    def subject(self, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
        """Inspect the caption of an image; `text` is the name of its file."""
        from regard.tasks.translation.inspect import of_image

        return of_image(self, self._pixels(open_image(text)), text, target)

    def test_texts(self, test: CaptionedImages) -> Iterator[tuple[str, str | None]]:
        raise UserError("the test set of a captioner is images; give one of them, IMAGE.png.")

    def evaluate(self, test: CaptionedImages) -> EvaluationResult[CaptionScores]:
        found = [best[0] for best in self.write(test.images_NYXC)]
        scenes, looks = [example.scene for example in test.examples if example.scene is not None], NONE
        if len(scenes) == len(test):
            for rows in self._parts(len(test)):
                captions = [found[n] for n in rows]
                for n, maps_LYX in zip(rows, self.maps(test.images_NYXC[rows], captions)):
                    looks += looks_at(scenes[n], found[n].text, maps_LYX)
        outputs, references = [caption.text for caption in found], [example.captions for example in test.examples]
        return EvaluationResult(caption_scores(outputs, references, scenes if len(scenes) == len(test) else [], looks), outputs)

    def heat(self, name: str) -> Heat:
        """Return a map for each word of an image's caption: where its attention was."""
        return self.heat_of(open_image(name))

    def heat_of(self, picture: Image.Image) -> Heat:
        """Return the same of an image that is open."""
        image_YXC = self._pixels(picture)
        (caption, *_), *_ = self.write(image_YXC[None])
        (maps_LYX,) = self.maps(image_YXC[None], [caption])
        picture.thumbnail((SHOWN, SHOWN))
        return Heat(caption.text, np.asarray(picture), tuple(caption.text.split()), maps_LYX, tuple(self._cross()))

    def maps(self, images_BYXC: np.ndarray, captions: Sequence[GeneratedText]) -> Iterator[np.ndarray]:
        """maps_LYX of every caption's words, as spaces part them: the mean over heads, layers and a word's pieces."""
        with probe(self.model) as seen:
            self._look(images_BYXC, captions)
        weights_BLM = torch.stack([seen[name].weights().mean(1) for name in self._cross()]).mean(0).cpu().numpy()
        side = self.model.config.side
        for caption, weights_LM in zip(captions, weights_BLM):
            owners, words = self._words(caption.ids), len(caption.text.split())
            maps_LYX = np.zeros((words, side, side), np.float32)
            for word in range(words):
                maps_LYX[word] = weights_LM[: len(owners)][owners == word].mean(0).reshape(side, side)
            yield maps_LYX

    def _words(self, ids: Sequence[int]) -> np.ndarray:
        """Return for each token the number of its word in the caption."""
        return np.array([max(0, len(self.tokenizer.decode(ids[: n + 1]).split()) - 1) for n in range(len(ids))])

    def _cross(self) -> list[str]:
        return [name for name in self.model.config.attentions if name.endswith(".cross")]

    def _parts(self, images: int) -> Iterator[list[int]]:
        """Yield batches of images whose cells are about as many as a batch may have tokens."""
        most = max(1, self.decode.batch_tokens // self.model.config.cells)
        return (list(range(begin, min(begin + most, images))) for begin in range(0, images, most))

    def _pixels(self, picture: Image.Image) -> np.ndarray:
        return square(picture, self.model.config.image_size)

    def _search(self, image_BYXC: torch.Tensor, numbers: Sequence[int]) -> list[list[GeneratedText]]:
        limits = self.decode.capped([self.room] * len(image_BYXC))
        return find(self.decode, self.model.start(image_BYXC), self.tokenizer, limits, numbers, self.sessions)

    @torch.no_grad()
    def _look(self, images_BYXC: np.ndarray, captions: Sequence[GeneratedText]) -> None:
        """One teacher-forced pass over the results: training and decoding give the same numbers, so this is what was attended."""
        target_BL, _ = pad([np.array([SOS, *caption.ids][: self.room]) for caption in captions])
        self.model(torch.from_numpy(images_BYXC).to(self.device), target_BL.to(self.device))


def longest(config: CaptionerConfig) -> int:
    """Tokens a caption may have, <sos> or <eos> counted: learned positions end."""
    return min(LONGEST, config.maximum_length) if config.decoder == "transformer" and config.position == "learned" else LONGEST

"""A trained masked autoencoder: it hides most of an image and shows what it makes of the rest.

Where patches were learned relative to their own mean and deviation, a picture takes both from the image itself, as the authors'
pictures do: what is restored is then what a patch shows, not how bright it is.

Dims: N images, B batch, Y X rows and columns, C colours, G cells, S of them shown, P numbers of a patch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from regard.core.atomic import check_place
from regard.core.errors import UserError
from regard.core.files import write_whole
from regard.core.terminal import Emit, printable
from regard.data.sources.image_sets import Form, ImageSet, open_images
from regard.families import build_model
from regard.objectives.masked_patches import VARIANCE, MaskedPatchesConfig, MaskedPatchesLoss, fixed_noise, normalised, shown
from regard.runs.folder import Run
from regard.runs.load import load_model, must_be_as_trained, ready
from regard.runs.pretrained import InitCheckpoint
from regard.runs.protocols import Vocabulary
from regard.runs.recipe import Recipe
from regard.tasks.image_generation.sheet import Row, sheet
from regard.tasks.masked_image_modeling.prepare import form_of
from regard.tasks.predictor import EvaluationResult

TOGETHER = 64  # images
HIDDEN = 210  # the grey of what is hidden


class Restored(NamedTuple):
    shown_YXC: np.ndarray  # with grey in place of what is hidden
    restored_YXC: np.ndarray  # what is shown, and what the model makes of the rest
    error: float  # mean squared error of what is hidden, in the units of the objective


@dataclass(frozen=True)
class RestorationScores:
    error: float  # mean squared error of hidden patches
    alone: float  # the same of a model that knows the mean of each patch, or of all shown patches, and nothing else
    normalised: bool
    images: int
    outputs: Sequence[str] = field(default_factory=tuple)

    def lines(self) -> list[str]:
        alone = "each patch's own mean" if self.normalised else "the mean of what is shown"
        return [
            f"error      {self.error:.4f}  of hidden patches, {self.images:,} images",
            f"           {self.alone:.4f}  {alone}",
        ]

    def as_dict(self) -> dict[str, Any]:
        return {"error": self.error, "images": self.images, "error_of_means": self.alone}


@dataclass
class ImageRestorer:
    """Restores images that are mostly hidden."""

    model: Any
    objective: MaskedPatchesConfig
    form: Form

    tokenizer = None
    example = "IMAGE.png"

    @classmethod
    def of(cls, source: Run | InitCheckpoint, recipe: Recipe, device: torch.device) -> Self:
        """Open a run, or a public folder with encoder and decoder."""

        def build() -> Any:
            return build_model(recipe.model, vocabulary=0)

        if isinstance(source, Run):
            must_be_as_trained(source, recipe)
        model = load_model(source, build) if isinstance(source, Run) else source.open(build)
        return cls(ready(model, recipe.decode.weights, device), recipe.objective, form_of(recipe))

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def vocabularies(self) -> dict[str, Vocabulary]:
        return {}

    def opened(self, name: str) -> ImageSet:
        return open_images([name.strip()], self.form)

    @torch.no_grad()
    def restore(self, images_NYXC: np.ndarray, seed: int = 0) -> list[Restored]:
        """Hide patches of images, each time the same ones of the same images, and restore them."""
        found = list[Restored]()
        for start in range(0, len(images_NYXC), TOGETHER):
            image_BYXC = torch.from_numpy(np.ascontiguousarray(images_NYXC[start : start + TOGETHER])).to(self.device)
            found += self._restore(image_BYXC, start + seed)
        return found

    def _restore(self, image_BYXC: Tensor, seed: int) -> Iterator[Restored]:
        target_BGP, columns = self.model.targets(image_BYXC), self.model.config.grid[1]
        images, cells, _ = target_BGP.shape
        shown_BS = shown(fixed_noise(images, cells, seed), self.objective.mask_rate).to(self.device)
        found_BGP = self.model(image_BYXC, shown_BS).float()
        hidden_BG1 = torch.ones(images, cells, device=self.device).scatter(1, shown_BS, 0.0)[..., None]
        wanted_BGP = normalised(target_BGP) if self.objective.normalised else target_BGP
        error_B = ((found_BGP - wanted_BGP).square().mean(-1, keepdim=True) * hidden_BG1).sum((1, 2)) / hidden_BG1.sum((1, 2))
        if self.objective.normalised:
            variance_BG1, mean_BG1 = torch.var_mean(target_BGP, -1, keepdim=True)
            found_BGP = found_BGP * (variance_BG1 + VARIANCE).sqrt() + mean_BG1
        to_image = self.model.embed.cells.image
        whole_BGP = torch.where(hidden_BG1 > 0, found_BGP, target_BGP)
        restored = to_image(whole_BGP, columns).round().clamp(0, 255).byte().cpu().numpy()
        covered = to_image(hidden_BG1.expand_as(target_BGP), columns) > to_image(torch.full_like(target_BGP, 0.5), columns)
        grey = torch.where(covered, torch.full_like(image_BYXC, HIDDEN), image_BYXC).cpu().numpy()
        return (Restored(*each) for each in zip(grey, restored, error_B.tolist()))

    def draw(self, text: str, seen: Callable[[np.ndarray, int], None] | None = None, number: int = 0) -> np.ndarray:
        """Return image_YXC of a file with its hidden part restored; `number` decides what is hidden."""
        return self.restore(self.opened(text).pixels_NYXC[:1], number)[0].restored_YXC

    def draw_to(self, texts: Sequence[str], output: Path | None, as_json: bool, emit: Emit) -> None:
        """Draw each image, what is shown of it and what is restored into one picture."""
        if not texts:
            raise UserError("give the images to hide and restore, such as IMAGE.png or builtin:shapes/test/7.")
        if as_json or output is None:
            self.predict(texts, None, as_json, emit)
            return
        if output.suffix.lower() != ".png":
            raise UserError(f"--output {output}: the picture is written as .png; give --output {output.with_suffix('.png')}.")
        check_place(output, "--output")
        rows, errors = list[Row](), list[float]()
        for image, name, found in self._all(texts):
            rows.append(Row(Path(name).name, [image, found.shown_YXC, found.restored_YXC]))
            errors.append(found.error)
        write_whole(output, sheet(rows, ["image", "shown", "restored"]))
        emit(f"{output}: {len(rows)} images, error {np.mean(errors):.4f} of hidden patches\n")

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """`image<TAB>error` of each image; as JSON, the pixels that were restored too."""
        for _, name, found in self._all(texts):
            if as_json:
                told = {"image": name, "error": found.error, "pixels": found.restored_YXC.tolist()}
                emit(json.dumps(told, ensure_ascii=False) + "\n")
            else:
                emit(f"{printable(name)}\t{found.error:.4f}\n")

    def _all(self, texts: Sequence[str]) -> Iterator[tuple[np.ndarray, str, Restored]]:
        for text in texts:
            images = self.opened(text)
            yield from zip(images.pixels_NYXC, images.names, self.restore(images.pixels_NYXC))

    def test_texts(self, test: ImageSet) -> Iterator[tuple[str, str | None]]:
        return ((name, None) for name in test.names)

    @torch.no_grad()
    def evaluate(self, test: ImageSet) -> EvaluationResult[RestorationScores]:
        errors = [found.error for found in self.restore(test.pixels_NYXC)]
        nothing, alone = _Nothing(self.model, self.objective.normalised), list[float]()
        loss = MaskedPatchesLoss(self.objective)
        for start in range(0, len(test), TOGETHER):
            image_BYXC = torch.from_numpy(test.pixels_NYXC[start : start + TOGETHER]).to(self.device)
            target_BGP = self.model.targets(image_BYXC)
            images, cells, _ = target_BGP.shape
            noise_BG = fixed_noise(images, cells, start).to(self.device)
            alone.append(float(loss.of(nothing, image_BYXC, noise_BG, target_BGP).total))
        found = RestorationScores(float(np.mean(errors)), sum(alone) / len(test), self.objective.normalised, len(test))
        return EvaluationResult(found, [])


@dataclass
class _Nothing:
    """Restores nothing but means: what any model must beat."""

    model: Any
    normalised: bool

    def __call__(self, image_BYXC: Tensor, shown_BS: Tensor) -> Tensor:
        target_BGP: Tensor = self.model.targets(image_BYXC)
        if self.normalised:
            return torch.zeros_like(target_BGP)
        shown_BSP = target_BGP.gather(1, shown_BS[..., None].expand(-1, -1, target_BGP.shape[-1]))
        return shown_BSP.mean((1, 2), keepdim=True).expand_as(target_BGP)

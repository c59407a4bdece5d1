"""Compare an imported model with what transformers computes from the same folder, on a probe input, in float32.

transformers is not needed to import a model, so this is done where it is installed, and said in one line. Differences above
`MOST` mean that a checkpoint is read wrongly, by us or by it; 1e-5 is usual.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.families import family_of
from regard.interop.huggingface.load import opened_by

MOST = 1e-3  # largest difference of two logits, or of two vectors, that is the same model
ROWS, LENGTH = 2, 12  # of the probe input
IMAGES = ("AutoModelForImageClassification", "AutoModelForPreTraining")
CLASSES = {"seq2seq": "AutoModelForSeq2SeqLM", "causal_lm": "AutoModelForCausalLM"}
CLASSES |= {"image_classification": IMAGES[0], "masked_image_modeling": IMAGES[1]}


def installed() -> bool:
    return find_spec("transformers") is not None


@torch.no_grad()
def largest_difference(model: Any, folder: Path, vocabulary: int) -> float | None:
    """Return the largest difference of the model's outputs from those of transformers; None where these have another shape."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    import transformers

    family, model = family_of(model), model.float().eval()
    kind = next((name for capability, name in CLASSES.items() if family.has(capability)), "AutoModel")
    kind = opened_by(folder) if family.has("forecasting") else kind
    try:
        theirs = getattr(transformers, kind).from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()
    except Exception as error:  # of any of its many kinds
        reason = str(error).strip().partition("\n")[0]
        raise UserError(f"transformers cannot open {folder}, so there is nothing to compare with ({reason}).") from error
    if kind in IMAGES:
        found, expected = _of_images(model, theirs.to(_device(model)), kind)
    elif family.has("forecasting"):
        found, expected = _of_series(model, theirs, vocabulary)
    else:
        ids = torch.randint(4, vocabulary, (ROWS, LENGTH), generator=torch.Generator().manual_seed(0)).to(_device(model))
        expected = _theirs(theirs.to(ids.device), kind, ids)
        found = _ours(model, kind, ids)
    return float((found - expected).abs().max()) if found.shape == expected.shape else None


def _of_images(model: Any, theirs: Any, kind: str) -> tuple[Tensor, Tensor]:
    """Return what both say of random images; of a masked autoencoder, with the same patches shown."""
    c, draw, device = model.config, torch.Generator().manual_seed(0), _device(model)
    image_BYXC = torch.randint(256, (ROWS, c.image_size, c.image_size, c.colours), generator=draw, dtype=torch.uint8).to(device)
    pixels_BCYX = c.as_numbers(image_BYXC, torch.float32).permute(0, 3, 1, 2)
    if kind != "AutoModelForPreTraining":
        return model(image_BYXC), theirs(pixels_BCYX).logits
    cells = c.grid[0] * c.grid[1]
    noise_BG = torch.rand(ROWS, cells, generator=draw).to(device)
    shown_BS = noise_BG.argsort(1)[:, : int(cells * (1 - theirs.config.mask_ratio))]
    return model(image_BYXC, shown_BS), theirs(pixels_BCYX, noise=noise_BG).logits


def _of_series(model: Any, theirs: Any, channels: int) -> tuple[Tensor, Tensor]:
    """Return what both forecast of random values; of a distribution, how likely the values that came next are."""
    c, draw = model.config, torch.Generator().manual_seed(0)
    past_BLC = torch.randint(9, (ROWS, c.lookback, channels), generator=draw).float()
    if not getattr(model, "teacher_forced", False):
        return model(past_BLC), theirs(past_values=past_BLC).prediction_outputs
    future_BHC = torch.randint(9, (ROWS, c.horizon, channels), generator=draw).float()
    known_BME = torch.randn(ROWS, c.lookback + c.horizon, c.known_features, generator=draw)
    static_BS = torch.randn(ROWS, c.static_features, generator=draw)
    categories = [torch.randint(n, (ROWS, 1), generator=draw) for n in c.cardinalities]
    past, future = (part[..., 0] if channels == 1 else part for part in (past_BLC, future_BHC))
    given = {"past_values": past, "past_observed_mask": torch.ones_like(past), "future_values": future}
    given |= {"past_time_features": known_BME[:, : c.lookback], "future_time_features": known_BME[:, c.lookback :]}
    if c.static_features:
        given["static_real_features"] = static_BS
    if categories:
        given["static_categorical_features"] = torch.cat(categories, 1)
    statics = torch.cat([*categories, static_BS], 1) if categories or c.static_features else None
    params = model(past_BLC, known_BME, statics, future_BHC)
    return model.distribution.nll(params, future_BHC).sum(-1).mean(), theirs(**given).loss


def _theirs(theirs: Any, kind: str, ids: Tensor) -> Tensor:
    if kind == "AutoModelForSeq2SeqLM":
        return theirs(input_ids=ids, attention_mask=torch.ones_like(ids), decoder_input_ids=ids.flip(0)).logits
    if kind == "AutoModelForCausalLM":
        return theirs(input_ids=ids).logits
    return theirs(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state


def _ours(model: Any, kind: str, ids: Tensor) -> Tensor:
    lengths = torch.full((len(ids),), ids.shape[1], device=ids.device)
    if kind == "AutoModelForSeq2SeqLM":
        return model(ids, lengths, ids.flip(0))
    if family_of(model).has("pixel_lm"):
        return model.hidden(ids)
    return model(ids) if kind == "AutoModelForCausalLM" else getattr(model, "body", model).hidden(ids, lengths)


def _device(model: Any) -> torch.device:
    return next(model.parameters()).device

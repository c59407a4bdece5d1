"""Opening a trained run: the settings it was trained with, its weights, and the form they compute fastest in."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

from regard.core.errors import UserError
from regard.core.files import format_size
from regard.model.packed_linear import Weights, pack
from regard.runs.cost import model_tree
from regard.runs.folder import CHECKPOINTS, Run
from regard.runs.recipe import Recipe
from regard.text.tokenizer import Tokenizer
from regard.training.checkpoint import Checkpoint

Body = TypeVar("Body", bound=nn.Module)
SMALLEST = 2  # parameters in a byte; four bytes are usual for one


def must_fit_weights(run: Run, recipe: Recipe) -> None:
    """Refuse settings that ask for a model much larger than its files, before memory is taken for it."""
    size = sum(path.stat().st_size for path in (run.folder / CHECKPOINTS).glob("*/*.safetensors"))
    parameters = model_tree(recipe, recipe.text.size if recipe.text.tokenizer == "public" else 1).parameters
    if size and parameters > SMALLEST * size:
        raise UserError(
            f"{run.folder / 'recipe.toml'} describes a model of {parameters:,.0f} parameters or more, but its weights have only "
            f"{format_size(size)}; that file is damaged or from another run. Copy the whole run again."
        )


def must_be_as_trained(run: Run, recipe: Recipe) -> None:
    must_fit_weights(run, recipe)
    changed = [setting for setting in recipe.differences(run.recipe) if not setting.startswith(("data.", "decode."))]
    if changed:
        raise UserError(
            f"{changed[0]} cannot be set for a trained run; set decode.KEY=VALUE here, or train another run with it: "
            f"'regard train {run.folder / 'recipe.toml'} {changed[0].split(' ')[0]} --out ANOTHER_FOLDER'."
        )


def fill(model: nn.Module, weights: Checkpoint) -> None:
    try:
        model.load_state_dict(weights.tensors("model"))
    except RuntimeError:  # torch lists every tensor that differs
        raise UserError(
            f"the weights in {weights.path} do not fit the model that recipe.toml and the tokenizer of the run describe; one of "
            "them is from another run, or another version of Regard. Copy the whole run again, or train it again."
        ) from None


def window_of(recipe: Recipe) -> int:
    """Tokens that are seen together: learned positions end, others do not."""
    window = recipe.data.window or recipe.model.maximum_length
    if recipe.model.position == "learned" and window > recipe.model.maximum_length:
        raise UserError(
            f"data.window={window} is more than model.maximum_length={recipe.model.maximum_length} positions; set them alike."
        )
    if recipe.data.stride > window:
        raise UserError(f"data.stride={recipe.data.stride} is more than a window of {window} tokens; give at most that, or 0.")
    return int(window)


def vocabulary_of(recipe: Recipe, tokenizer: Tokenizer) -> int:
    """Rows of a model's table of tokens: of a public one there may be more than its tokenizer has pieces."""
    return int(recipe.text.size) if recipe.text.tokenizer == "public" else len(tokenizer)


def ready(model: Body, weights: Weights, device: torch.device) -> Body:
    """Where it is to compute, in the form that `decode.weights` asks for."""
    if device.type == "cpu":
        pack(model, weights)
    elif weights == "int8":
        raise UserError("decode.weights=int8 is for a CPU; give --device cpu, or decode.weights=bfloat16 on a GPU.")
    elif weights == "bfloat16":
        model = model.bfloat16()
    return model.to(device).eval()

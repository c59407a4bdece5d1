"""Opening a trained run: the settings it was trained with, its weights, and the form they compute fastest in.

A model is built without memory for its parameters, and the tensors of a checkpoint become its parameters.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from regard.core.errors import UserError
from regard.core.files import format_size
from regard.families import family_of
from regard.families.base import Sizes
from regard.model.layers import Weights, pack
from regard.runs.folder import CHECKPOINTS, Run
from regard.runs.recipe import Recipe
from regard.text.tokenizer import Tokenizer
from regard.training.checkpoint import Checkpoint
from regard.training.lora import merged

Body = TypeVar("Body", bound=nn.Module)
KEEPS_VALUES = ("__get__", "__set__", "__setitem__", "requires_grad_", "detach_")  # of functions that end so
SMALLEST = 2  # parameters in a byte; four bytes are usual for one


def load_model(run: Run, build: Callable[[], Body]) -> Body:
    """Build a run's model and load its weights into it."""
    weights = run.weights()
    with empty_parameters(run):
        model = build()
    fill(model, model_weights(run, weights), weights)
    return model


def model_weights(run: Run, weights: Checkpoint) -> dict[str, Tensor]:
    """Return the weights of a run's model in this checkpoint, low-rank adapters merged into them."""
    tensors, scale = weights.tensors("model"), getattr(run.recipe.train, "lora_scale", 0.0)
    return merged(tensors, scale) if scale else tensors


@contextmanager
def empty_parameters(run: Run | None = None) -> Iterator[None]:
    """Create parameters on the meta device: without memory, and without drawing them. Buffers are computed as ever.

    A model much larger than the weights of `run` is refused while it is built.
    """
    size = sum(path.stat().st_size for path in (run.folder / CHECKPOINTS).glob("*/*.safetensors")) if run is not None else 0
    thread, parameters = threading.get_ident(), 0

    def registered(module: nn.Module, name: str, parameter: nn.Parameter | None) -> nn.Parameter | None:
        nonlocal parameters
        if parameter is None or threading.get_ident() != thread:
            return None  # as it is
        parameters += parameter.numel()
        if run is not None and size and parameters > SMALLEST * size:
            raise UserError(
                f"{run.folder / 'recipe.toml'} describes a model of {parameters:,} parameters or more, but its weights have only "
                f"{format_size(size)}; that file is damaged or from another run. Copy the whole run again."
            )
        return parameter if parameter.is_meta else nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)

    hook = register_module_parameter_registration_hook(registered)  # type: ignore[arg-type]  # it may return a parameter
    try:
        with _EmptyOnMeta():
            yield
    finally:
        hook.remove()


class _EmptyOnMeta(TorchFunctionMode):
    """Give `torch.empty`, by which modules make their parameters, no memory, and skip what would fill them.

    Random numbers on the meta device would import torch's compiler, which takes seconds.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.empty and kwargs.get("device") is None:
            kwargs["device"] = "meta"
        name, tensor = func.__name__, args[0] if args else kwargs.get("tensor")
        if name.endswith("_") and name not in KEEPS_VALUES and isinstance(tensor, Tensor) and tensor.is_meta:
            return tensor
        return func(*args, **kwargs)


def assign(model: nn.Module, tensors: Mapping[str, Tensor], *, strict: bool = True) -> None:
    """Make tensors the parameters of a model. Parameters that were one and the same stay so."""
    own, names = model.state_dict(keep_vars=True), dict[int, list[str]]()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    model.load_state_dict(
        {name: tensor.to(own[name].dtype) if name in own else tensor for name, tensor in tensors.items()},
        strict=strict,
        assign=True,
    )
    for tied in (group for group in names.values() if len(group) > 1):
        loaded = [parameter for parameter in map(model.get_parameter, tied) if not parameter.is_meta]
        for path in tied if loaded else ():
            module, _, name = path.rpartition(".")
            setattr(model.get_submodule(module), name, loaded[0])


def fill(model: nn.Module, tensors: Mapping[str, Tensor], weights: Checkpoint) -> None:
    """Load all weights of a checkpoint into a model that was built by `empty_parameters`."""
    try:
        assign(model, tensors)
    except RuntimeError:  # torch lists every tensor that differs
        raise UserError(
            f"the weights in {weights.path} do not fit the model that recipe.toml and the tokenizer of the run describe; one of "
            "them is from another run, or another version of Regard. Copy the whole run again, or train it again."
        ) from None


def must_fit_weights(run: Run, recipe: Recipe) -> None:
    """Refuse settings of a model much larger than the run's files, before memory is taken for it."""
    vocabulary = recipe.text.size if recipe.text.tokenizer == "public" else 1
    with empty_parameters(run):
        family_of(recipe.model).build(recipe.model, Sizes(vocabulary=vocabulary), 0)


def must_be_as_trained(run: Run, recipe: Recipe) -> None:
    """Refuse settings that a trained run cannot change."""
    changed = [setting for setting in recipe.differences(run.recipe) if not setting.startswith(("data.", "decode."))]
    if changed:
        raise UserError(
            f"{changed[0]} cannot be set for a trained run; set decode.KEY=VALUE here, or train another run with it: "
            f"'regard train {run.folder / 'recipe.toml'} {changed[0].split(' ')[0]} --out ANOTHER_FOLDER'."
        )


def cut_of(recipe: Recipe) -> int:
    """Return the number of tokens that a text is cut to, its marks counted; 0: not cut."""
    cut, room = recipe.data.maximum_tokens, recipe.model.context
    if room is not None and cut > room:
        raise UserError(
            f"data.maximum_tokens={cut} is more than model.maximum_length={room} positions; set it to {room} or less."
        )
    return int(cut)


def window_of(recipe: Recipe) -> int:
    """Return the number of tokens that are seen together: learned positions end, others do not."""
    window = recipe.data.window or recipe.model.maximum_length
    if recipe.model.position == "learned" and window > recipe.model.maximum_length:
        raise UserError(
            f"data.window={window} is more than model.maximum_length={recipe.model.maximum_length} positions; set them alike."
        )
    if recipe.data.stride > window:
        raise UserError(f"data.stride={recipe.data.stride} is more than a window of {window} tokens; give at most that, or 0.")
    return int(window)


def memory_of(recipe: Recipe) -> int:
    """Return the tokens of memory that a text is scored and continued with; refuse what a memory does not go with."""
    data, decode, memory = recipe.data, recipe.decode, getattr(recipe.model, "memory", 0)
    longer = getattr(data, "memory", 0)
    if not memory:
        if longer:
            raise UserError(f"data.memory={longer} is for models with a memory, and model.memory=0; leave it out.")
        return 0
    if data.document_mask:
        raise UserError(
            f"data.document_mask=true hides documents from each other, and model.memory={memory} goes on from one to the next; "
            "set data.document_mask=false, or model.memory=0."
        )
    if data.stride:
        raise UserError(
            f"data.stride={data.stride} is for windows that overlap, and with model.memory={memory} nothing is read twice; leave "
            "it out, or give data.memory for a longer context."
        )
    for key in ("share_prefix", "draft", "prompt_lookup", "cache"):
        value = getattr(decode, key)
        if recipe.model.memory_start == "zeros" and value != getattr(type(decode), key):
            raise UserError(
                f"decode.{key}={str(value).lower()} counts tokens from the first of a text, and model.memory_start=zeros has "
                f"vectors before it; leave decode.{key} out."
            )
    return int(longer or memory)


def vocabulary_of(recipe: Recipe, tokenizer: Tokenizer) -> int:
    """Return the rows of a model's token embedding: a public model may have more of them than its tokenizer has tokens."""
    return int(recipe.text.size) if recipe.text.tokenizer == "public" else len(tokenizer)


def ready(model: Body, weights: Weights, device: torch.device) -> Body:
    """Move a model to where it will compute, in the form that `decode.weights` asks for."""
    if device.type == "cpu":
        pack(model, weights)
    elif weights == "int8":
        raise UserError("decode.weights=int8 is for a CPU; give --device cpu, or decode.weights=bfloat16 on a GPU.")
    elif weights == "bfloat16":
        model = model.bfloat16()
    return model.to(device).eval()

"""Parameters and operations of a model, counted from its modules on the meta device: nothing is allocated.

`count(model, run)` runs a model that was built under `torch.device("meta")` and returns its tree: every module with its
parameters, a shared one where it is met first, and the operations of the run.

A multiply-add is two operations; a product of L vectors with a D x E matrix is 2 L D E. Products of matrices and convolutions are
counted as torch's own table has them; norms, biases, softmax, activations and look-ups are left out, as usual. Two kinds of
module do not run on the meta device but state their operations: attention, whose sparse kernels compute a part of all pairs
(`mixing_flops`), and recurrent cells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.core.errors import UserError
from regard.model.block import BlockConfig
from regard.model.mixers.convolution import CYCLE
from regard.model.sparse.dispatch import computed
from regard.model.visibility import View

SHARED = " (shared)"
CELL_GATES = {nn.LSTM: 4, nn.GRU: 3}
SUMMED: dict[str, Callable[..., int]] = {  # products of matrices: how many terms a number of the result is the sum of
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "linear"), lambda x, *rest: x.shape[-1]),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), lambda bias, x, *rest: x.shape[-1]),
    "rmatmul": lambda y, x: x.shape[-1],
    "einsum": lambda equation, x, *rest: x.shape[-1],  # of what is used here: the last letter of the first is summed
    "conv2d": lambda x, weight, *rest: weight[0].numel(),
}
DRAWS = frozenset(("normal", "uniform", "kaiming_uniform", "zero", "fill"))
COMPARE = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
POSITIONS = ("neg", "pow", "rpow", "sin", "cos", "double", "float")
ARITHMETIC = ("add", "radd", "sub", "rsub", "mul", "rmul", "div", "truediv", "and", "or", "invert")
ELEMENTWISE = COMPARE | frozenset((*ARITHMETIC, "relu", "gelu", "tanh", "sigmoid", "masked_fill", *POSITIONS))


@dataclass(frozen=True)
class Part:
    """A node of the model's tree: what `regard explain` prints."""

    name: str
    shape: str = ""
    file: str = ""
    own_parameters: int = 0
    own_flops: int = 0  # forward, of the run that was counted
    children: tuple[Part, ...] = field(default=())
    times: int = 1  # identical copies, such as the layers of a stack

    @property
    def parameters(self) -> int:
        return self.times * (self.own_parameters + sum(child.parameters for child in self.children))

    @property
    def flops(self) -> int:
        return self.times * (self.own_flops + sum(child.flops for child in self.children))

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Part]]:
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


class _ShapesAlone(TorchFunctionMode):
    """Answers the commonest operations by the shape of their result: for them torch's meta device imports its compiler.

    Numbers that layers draw when they are built are left out. All other operations are torch's own.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", "").strip("_"), kwargs or {}
        if name in DRAWS:
            return args[0] if args else kwargs["tensor"]
        if name == "arange":
            return torch.empty(len(range(*args)), dtype=torch.long, device="meta")
        if name == "stack":
            dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
            shape = args[0][0].unsqueeze(dim).shape
            return args[0][0].new_empty(
                [len(args[0]) if size == 1 and n == dim % len(shape) else size for n, size in enumerate(shape)]
            )
        if name in ELEMENTWISE:
            tensors = [value for value in args if isinstance(value, Tensor)]
            shape = np.broadcast_shapes(*(tuple(x.shape) for x in tensors))
            return tensors[0].new_empty(shape, dtype=torch.bool if name in COMPARE else tensors[0].dtype)
        return self.found(name, func(*args, **kwargs), args)

    def found(self, name: str, result: Any, args: Any) -> Any:
        return result


# --- counting ------------------------------------------------------------------------------------------------------------------
def on_meta(build: Callable[[], nn.Module]) -> nn.Module:
    """Return a model on the meta device, in evaluation mode; a size that no tensor can have is refused."""
    try:
        with torch.device("meta"), _ShapesAlone():
            return build().eval()
    except RuntimeError as error:
        if "overflow" not in str(error).lower():
            raise
        raise UserError(
            "this model has a matrix of more than 2^63 bytes; lower model.width, model.feedforward or text.size."
        ) from None


@torch.no_grad()
def count(model: nn.Module, run: Callable[[], Any], name: str) -> Part:
    """Return the tree of a model on the meta device, with the operations of one `run` of it."""
    counter = _Counter(model)
    with torch.device("meta"), counter:
        run()
    for module, flops in counter.mixed:
        counter.flops[module] += flops()
    return replace(_part(model, name, "", counter, set()), name=name)


class _Counter(_ShapesAlone):
    """Operations by the module that was running; and what went into each module and came out, as text."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.flops: dict[nn.Module, int] = defaultdict(int)
        self.shapes: dict[nn.Module, str] = {}
        self.mixed = list[tuple[nn.Module, Callable[[], int]]]()
        self.running = [model]
        for module in model.modules():
            module.register_forward_pre_hook(lambda module, given: self.running.append(module))
            module.register_forward_hook(self._leave)
            if hasattr(module, "mixer") and hasattr(module.mixer, "mix"):
                self._replace_mixer(module)
            if isinstance(module, nn.Linear | nn.Embedding | nn.LayerNorm | nn.RMSNorm | nn.LSTM | nn.GRU):
                self._replace_layer(module)

    def _leave(self, module: Any, given: tuple[Any, ...], found: Any) -> None:
        self.running.pop()
        if hasattr(module, "elementwise_flops"):
            self.flops[module] += module.elementwise_flops(given[0])
        if given and isinstance(given[0], Tensor) and isinstance(found, Tensor):
            self.shapes[module] = f"{_dimensions(given[0])} -> {_dimensions(found)}"

    def found(self, name: str, result: Any, args: Any) -> Any:
        if name in SUMMED:
            self.flops[self.running[-1]] += 2 * result.numel() * SUMMED[name](*args)
        return result

    def _replace_mixer(self, module: Any) -> None:
        """Let the attention state its operations, which depend on the pairs that its kernel computes."""
        mixer = module.mixer

        def mix(q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, *rest: Any, **named: Any) -> Tensor:
            (view,) = (value for value in (*rest, *named.values()) if isinstance(value, View))
            self.mixed.append((module, lambda: mixing_flops(mixer, q_BHLK, k_BHMK, v_BHMK, view)))  # patterns need a CPU
            return q_BHLK.new_empty(*q_BHLK.shape[:-1], v_BHMK.shape[-1])

        mixer.mix = mix
        if hasattr(module, "comparing"):  # of a recurrent decoder, whose queries come one by one
            module.comparing = lambda memory: mixer

    def _replace_layer(self, layer: Any) -> None:
        """Let a layer of torch state its operations and the shape of its output: the meta device would take milliseconds."""

        def forward(x: Tensor, *rest: Any) -> Any:
            vectors = x.shape[:-1].numel()
            match layer:
                case nn.Linear():
                    self.flops[layer] += 2 * vectors * layer.in_features * layer.out_features
                    return x.new_empty(*x.shape[:-1], layer.out_features)
                case nn.Embedding():
                    return layer.weight.new_empty(*x.shape, layer.embedding_dim)
                case nn.LSTM() | nn.GRU():
                    gates = CELL_GATES[type(layer)] * layer.hidden_size
                    self.flops[layer] += 2 * vectors * gates * (layer.input_size + layer.hidden_size)
                    return x.new_empty(*x.shape[:-1], layer.hidden_size), None
            return x

        layer.forward = forward


def mixing_flops(mixer: Any, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, view: View) -> int:
    """Return the operations between projections: those of the mixer's own `flops`, or scores and a weighted sum of all pairs.

    Where a pattern leaves out blocks, the pairs are those that a GPU's kernel computes.
    """
    rows, queries, keys = q_BHLK.shape[:2].numel(), q_BHLK.shape[2], k_BHMK.shape[2]
    share = computed(view.visibility.data_independent, queries) if queries == keys and not view.causal else 1.0
    if hasattr(mixer, "flops"):
        return rows * mixer.flops(queries, keys, q_BHLK.shape[-1], share)
    return 2 * rows * round(queries * keys * share) * (q_BHLK.shape[-1] + v_BHMK.shape[-1])


# --- the tree ------------------------------------------------------------------------------------------------------------------
def _part(module: nn.Module, name: str, file: str, counter: _Counter, seen: set[int]) -> Part:
    """Return the part of a module; `seen` are parameters that an earlier module has."""
    place = type(module).__module__
    file = place.removeprefix("regard.").replace(".", "/") + ".py" if place.startswith("regard.") else file
    if (shape := _summary(module)) is not None:
        parts = list(module.modules())
        own = {id(p): p.numel() for p in module.parameters()}
        shared = SHARED if seen & own.keys() else ""
        parameters = sum(numel for key, numel in own.items() if key not in seen)
        seen.update(own)
        return Part(name, f"{shape}{shared}", file, parameters, sum(counter.flops.get(part, 0) for part in parts))
    own = {id(p): p.numel() for p in module.parameters(recurse=False)}
    parameters = sum(numel for key, numel in own.items() if key not in seen)
    seen.update(own)
    children = list(_children(module, file, counter, seen))
    shape, flops = counter.shapes.get(module, ""), counter.flops.get(module, 0)
    if len(children) == 1 and not parameters and not flops and children[0].times == 1:
        return replace(children[0], name=name)
    return Part(name, shape, file, parameters, flops, tuple(children))


def _children(module: nn.Module, file: str, counter: _Counter, seen: set[int]) -> Iterator[Part]:
    for name, child in module.named_children():
        if not isinstance(child, nn.ModuleList):
            named = type(child).__name__.lower() if name == "layer" else name.replace("_", " ")
            part = _part(child, named, file, counter, seen)
            if part.parameters or part.flops or part.shape.endswith(SHARED):
                yield part
            continue
        kinds = [_part(each, type(each).__name__.lower(), file, counter, seen) for each in child]
        for part, alike in groupby(kinds):
            listed = "" if name == f"{part.name}s" else f"{name.replace('_', ' ')}: "
            times = len(list(alike))
            yield replace(part, name=f"{listed}{times} x {part.name}", times=times)


def _summary(module: nn.Module) -> str | None:
    """Return the text of a module that is one row of the tree: ours that define `extra_repr`, and torch's layers."""
    match module:
        case nn.Embedding():
            return f"{module.num_embeddings:,} x D={module.embedding_dim}"
        case nn.Linear():
            return f"D={module.in_features} -> {module.out_features:,}"
        case nn.LSTM() | nn.GRU():
            return f"I={module.input_size} -> D={module.hidden_size}"
        case nn.Conv2d():
            return f"C={module.in_channels} -> {module.out_channels}"
        case nn.LayerNorm():
            return f"D={module.normalized_shape[-1]}"
        case nn.RMSNorm():
            return f"D={module.normalized_shape[-1]} rms"
    ours = type(module).__module__.startswith("regard.") and type(module).extra_repr is not nn.Module.extra_repr
    return module.extra_repr() if ours else None


def _dimensions(x: Tensor) -> str:
    return ",".join(map(str, x.shape))


# --- what decoding keeps -------------------------------------------------------------------------------------------------------
def keys_and_values(config: BlockConfig, layers: int, source: bool) -> int:
    """Return the numbers that decoding keeps of every token it has read: a key and a value as wide as the model, in every layer.

    Linear attention keeps none; convolutions keep those of the source alone.
    """
    keeps = source if config.mixer == "conv" else config.mixer not in LINEAR
    return 2 * layers * (config.kv_heads or config.heads) * config.key_width if keeps else 0


def constant_state(config: BlockConfig, layers: int, source: bool) -> int:
    """Return the numbers that decoding keeps whatever the length: sums of linear attention, neighbours of a convolution."""
    c = config
    if c.mixer == "conv":
        cycle = [((c.kernel_size) - 1) * c.dilation_of(layer) * c.width for layer in range(CYCLE)]
        return layers // CYCLE * sum(cycle) + sum(cycle[: layers % CYCLE])
    if c.mixer not in LINEAR:
        return 0
    return (2 if source else 1) * layers * c.heads * (LINEAR[c.mixer](c) * (c.key_width + 1) + 1)


LINEAR: dict[str, Callable[[BlockConfig], int]] = {  # features of each mixer that keeps sums
    "favor": lambda config: config.feature_count,
    "linear-relu": lambda config: config.key_width,
}

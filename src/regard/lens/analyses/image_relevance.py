"""The relevance of each patch of an image for a class: weights times their gradients through all layers.

Chefer et al. 2021 (ICCV), "Generic attention-model explainability", equations 5 and 6. With A the weights of a layer, and ∇A the
gradient of the class's logit, R <- R + R mean_h(max(0, ∇A * A)), from the last layer to the first, beginning at the tokens that
the head reads. ∇A needs no weights in the pass: a head's context is A V, so ∇A = ∇context V^T. Chefer et al. read the row of the
class token; where the head reads the mean of the patches, it is the mean of their rows here, and where a query pools them, its
weights times their gradients come first. Only what is for a class is kept: one that everything speaks against has no map.

Dims: H heads, L queries, T tokens, N maps, V classes, K head width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.lens.analyses.image_attention import ImageMaps, begin_of, classified, maps_of, pooler, readers
from regard.lens.display import brief
from regard.lens.subject import Subject
from regard.model.probe import attentions, probe

CLASSES = 5  # that are shown where none is asked for


def relevance(subject: Subject, choices: Sequence[int] | None = None) -> ImageMaps:
    """Return a map for each of these classes; by default for the likeliest ones, and the one that is scored."""
    logits_V, relevant = relevances(subject)
    chances_V = logits_V.softmax(-1)
    if choices is None:
        likely = chances_V.topk(min(CLASSES, len(chances_V))).indices.tolist()
        choices = list(dict.fromkeys([*(n for n in subject.targets_L.tolist() if n >= 0), *likely]))[:CLASSES]
    weights_NT = np.stack([relevant(choice) for choice in choices])
    names = [f"{subject.choices(n)} {brief(float(chances_V[n]))}" for n in choices]
    caption = "relevance for a class, with its probability: weights times their gradients through all layers, what speaks for it."
    return maps_of(subject, "relevance", caption, names, weights_NT)


def relevances(subject: Subject) -> tuple[Tensor, Callable[[int], np.ndarray]]:
    """Run one pass; return its logits_V, and a function that gives for a class relevance_T of the tokens."""
    with torch.enable_grad(), probe(subject.model) as seen, contexts(subject.model) as given:
        logits_V = subject.forward(1)[0, -1].float()
    image, layers, pools = classified(subject), readers(subject, seen), pooler(subject, seen)
    names = [*layers, *([pools] if pools is not None else [])]
    weights = {name: seen[name].weights()[0].detach().double() for name in names}

    def relevant(choice: int) -> np.ndarray:
        slopes = torch.autograd.grad(logits_V[choice], [given[name] for name in names], retain_graph=True, allow_unused=True)
        steps = {}
        for name, slope in zip(names, slopes):
            v_HTK = _of_heads(seen[name].v_BHMK[0].detach(), len(weights[name])).double()
            slope_HLK = torch.zeros_like(v_HTK[:, :1]) if slope is None else _by_heads(slope[0], len(v_HTK)).double()
            steps[name] = ((slope_HLK @ v_HTK.mT) * weights[name]).clamp(min=0).mean(0).cpu().numpy()
        begin_T = begin_of(subject, seen)
        if pools is not None:
            begin_T[image.first : image.first + image.count] = steps[pools][0]
        share_T = begin_T
        for name in reversed(layers):
            share_T = share_T + share_T @ steps[name]
        return np.asarray(share_T - (begin_T if pools is None else 0))

    return logits_V.detach(), relevant


def attributed(subject: Subject, predicted: str, method: str, values_N: np.ndarray) -> ImageMaps:
    """Return two maps of what each patch adds to the log-probability of a class: where it is for it, and where against it."""
    image = classified(subject)
    own = [n for n, stack in enumerate(subject.stacks) if stack == image.stack]
    signed_T = values_N[own]
    caption = f"{method}: what each patch adds to the log-probability of {predicted}, in nats."
    return maps_of(subject, "gradients", caption, ("for it", "against it"), np.stack([signed_T, -signed_T]).clip(min=0))


def _by_heads(x_LD: Tensor, heads: int) -> Tensor:
    """Return x_HLK of vectors whose heads lie side by side, or of one query's vector."""
    return x_LD.reshape(-1, heads, x_LD.shape[-1] // heads).transpose(0, 1)


def _of_heads(v_GTK: Tensor, heads: int) -> Tensor:
    """Repeat values that groups of heads share."""
    return v_GTK.repeat_interleave(heads // len(v_GTK), 0)


@contextmanager
def contexts(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Yield what each attention hands to its output projection, as tensors that a gradient can be asked for."""
    given: dict[str, Tensor] = {}

    def keep(name: str, _: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        context = arguments[0] if arguments[0].requires_grad else arguments[0].detach().requires_grad_()
        given[name] = context
        return (context, *arguments[1:])

    with ExitStack() as hooks:
        for name, found in attentions(model).items():
            hooks.enter_context(found.out.register_forward_pre_hook(partial(keep, name)))
        yield given

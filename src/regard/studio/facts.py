"""What studio tells people of a run beside every screen."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from regard.model.probe import attentions


def facts_of(model: nn.Module, task: str, weights: str) -> Mapping[str, str]:
    """`weights`: where they come from."""
    heads = [found.heads for found in attentions(model).values()]
    size = sum(parameter.numel() for parameter in model.parameters())
    body = getattr(model, "body", model)
    family = getattr(getattr(body, "config", None), "family", type(model).__name__.lower())
    return {
        "task": task,
        "family": family,
        "attentions": f"{len(heads)}, with {sum(heads)} head{'s' * (sum(heads) != 1)} in all",
        "parameters": f"{size:,}",
        "weights": weights,
    }

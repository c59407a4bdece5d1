"""Starting values of every parameter, in one place, from one seed.

Matrices: Xavier uniform (Glorot & Bengio 2010), each projection by its own fans, also where several share one matrix.
Embeddings: normal with deviation D^-1/2, which the sqrt(D) scale turns into unit variance and which suits a tied output layer.
Or, as GPT and BERT start, all of them normal with one deviation; GPT-2 divides that of what is added to the residual stream by
the root of how often something is. Biases 0, norms 1. What a recurrent cell carries on starts by turning and not by shrinking:
orthogonal matrices (Saxe et al. 2014), and forget gates that are open (Jozefowicz et al. 2015). Convolutions over images start so
that what a rectifier lets through keeps its size (He et al. 2015).
"""

from __future__ import annotations

import torch
from torch import nn

from regard.model.attention import Attention
from regard.model.layers import FeedForward
from regard.model.mixers.convolution import Convolution
from regard.model.mixers.feature_maps import Drawn
from regard.model.mixers.scores import Additive, Bilinear
from regard.model.pooling import LearnedQuery


def initialise(model: nn.Module, seed: int, deviation: float | None = None, residual_layers: int = 1) -> None:
    """Xavier where no deviation is given; with one, it is divided by sqrt(residual_layers) for what residuals add."""
    if all(parameter.is_meta for parameter in model.parameters()):
        return  # there is nothing to draw: it is counted, or weights are loaded into it
    generator = torch.Generator().manual_seed(seed)
    fused = {id(module.project): module.projections for module in model.modules() if isinstance(module, Attention)}
    fused |= {id(module.project): (module.width, module.width) for module in model.modules() if isinstance(module, Convolution)}
    residual = {
        id(m.contract if isinstance(m, FeedForward) else m.out)
        for m in model.modules()
        if isinstance(m, (Attention, Convolution, FeedForward))
    }
    drawn: set[int] = set()  # a tied parameter is drawn once, where it is first met
    for module in model.modules():
        if isinstance(module, Drawn):
            module.draw(seed, 0)
        if isinstance(module, Convolution):
            nn.init.normal_(module.kernel_HW, generator=generator)
        if isinstance(module, Bilinear):
            nn.init.xavier_uniform_(module.between_KK, generator=generator)
        if isinstance(module, Additive):
            nn.init.normal_(module.weight_K, std=len(module.weight_K) ** -0.5, generator=generator)
        if isinstance(module, LearnedQuery):
            nn.init.normal_(module.query_D, std=len(module.query_D) ** -0.5, generator=generator)
        if isinstance(module, nn.LSTM | nn.GRU):
            _draw_cells(module, generator)
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
        if not isinstance(module, (nn.Embedding, nn.Linear, nn.LayerNorm)):
            continue
        if not isinstance(module, nn.Embedding) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if id(module.weight) in drawn:
            continue
        drawn.add(id(module.weight))
        if isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=deviation or module.embedding_dim**-0.5, generator=generator)
        elif deviation:
            share = residual_layers**-0.5 if id(module) in residual else 1.0
            nn.init.normal_(module.weight, std=deviation * share, generator=generator)
        else:
            for part in module.weight.split(fused.get(id(module), (module.out_features,))):
                nn.init.xavier_uniform_(part, generator=generator)
    for module in model.modules():
        if isinstance(module, Attention) and not module.scaled and not deviation:
            with torch.no_grad():  # scores are not divided by the root of the head width, so queries start divided by it
                (module.project if module.query is None else module.query).weight[: module.inner].div_(module.head_width**0.5)


def _draw_cells(layer: nn.LSTM | nn.GRU, generator: torch.Generator) -> None:
    """Gate by gate."""
    width = layer.hidden_size
    for name, parameter in layer.named_parameters():
        for gate in parameter.detach().split(width):
            if name.startswith("bias"):
                nn.init.zeros_(gate)
            elif name.startswith("weight_ih"):
                nn.init.xavier_uniform_(gate, generator=generator)
            else:
                nn.init.orthogonal_(gate, generator=generator)
        if name.startswith("bias_ih") and isinstance(layer, nn.LSTM):
            nn.init.ones_(parameter.detach()[width : 2 * width])

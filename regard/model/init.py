"""How every parameter starts, in one place, from one seed.

Matrices: Xavier uniform (Glorot & Bengio 2010), each projection by its own fans, also where several share one matrix.
Embeddings: normal with deviation D^-1/2, which the sqrt(D) scale turns into unit variance and which suits a tied output layer.
Biases 0, norms 1.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.model.attention import Attention


def initialise(model: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    fused = {id(module.project): module.width for module in model.modules() if isinstance(module, Attention)}
    drawn: set[int] = set()  # a tied parameter is drawn once, where it is first met
    for module in model.modules():
        if not isinstance(module, (nn.Embedding, nn.Linear, nn.LayerNorm)) or id(module.weight) in drawn:
            continue
        drawn.add(id(module.weight))
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5, generator=generator)
        elif isinstance(module, nn.Linear):
            for part in module.weight.split(fused.get(id(module), module.out_features)):
                nn.init.xavier_uniform_(part, generator=generator)
            _zero(module.bias)
        else:
            nn.init.ones_(module.weight)
            _zero(module.bias)


def _zero(bias: Tensor | None) -> None:
    if bias is not None:
        nn.init.zeros_(bias)

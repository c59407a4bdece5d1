"""PatchTST, DLinear and iTransformer in plain PyTorch in the layout of their authors' code, and its loader: windows are copied.

A data set gives one window at a time from an array on the host, a `DataLoader` stacks them, each batch is copied to the device,
and the loss of each step is read. The models have the weights of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from regard.families.dlinear import DLinearConfig
from regard.families.itransformer import ITransformerConfig
from regard.families.patchtst import PatchTSTConfig


class WindowsOfHost(Dataset[tuple[np.ndarray, np.ndarray]]):
    def __init__(self, values_TC: np.ndarray, lookback: int, horizon: int) -> None:
        self.values, self.lookback, self.horizon = values_TC, lookback, horizon

    def __len__(self) -> int:
        return len(self.values) - self.lookback - self.horizon + 1

    def __getitem__(self, start: int) -> tuple[np.ndarray, np.ndarray]:
        end = start + self.lookback
        return self.values[start:end], self.values[end : end + self.horizon]


class SelfAttention(nn.Module):
    """Three projections, explicit scores, and the scores of the layer below where there are any."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
        q, k, v = (layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        scores = scores if before is None else scores + before
        return self.out((F.softmax(scores, -1) @ v).transpose(1, 2).flatten(2)), scores


class EncoderLayer(nn.Module):
    def __init__(self, width: int, heads: int, feedforward: int, dropout: float, inner_dropout: float, batch_norm: bool) -> None:
        super().__init__()
        self.attention, self.batch_norm = SelfAttention(width, heads), batch_norm
        self.expand, self.contract = nn.Linear(width, feedforward), nn.Linear(feedforward, width)
        kind: Callable[[int], nn.Module] = nn.BatchNorm1d if batch_norm else nn.LayerNorm
        self.first, self.second = kind(width), kind(width)
        self.dropout, self.inner_dropout = nn.Dropout(dropout), nn.Dropout(inner_dropout)

    def forward(self, x: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
        y, scores = self.attention(x, before)
        x = self._normed(self.first, x + self.dropout(y))
        y = self.contract(self.inner_dropout(F.gelu(self.expand(x))))
        return self._normed(self.second, x + self.dropout(y)), scores

    def _normed(self, norm: nn.Module, x: Tensor) -> Tensor:
        found: Tensor = norm(x.transpose(1, 2)).transpose(1, 2) if self.batch_norm else norm(x)
        return found

    def take(self, block: nn.Module) -> None:
        """Copy the weights of a block of ours."""
        w = dict(block.named_parameters())
        layers = (self.attention.query, self.attention.key, self.attention.value)
        for part, weight, bias in zip(layers, w["self.layer.project.weight"].chunk(3), w["self.layer.project.bias"].chunk(3)):
            _take(part, weight, bias)
        names: dict[str, nn.Module] = {
            "self.layer.out": self.attention.out,
            "ffn.layer.expand": self.expand,
            "ffn.layer.contract": self.contract,
        }
        for name, layer in (names | {"self.norm": self.first, "ffn.norm": self.second}).items():
            _take(layer, w[f"{name}.weight"], w[f"{name}.bias"])


def _take(layer: nn.Module, weight: Tensor, bias: Tensor | None) -> None:
    with torch.no_grad():
        layer.weight.copy_(weight)  # type: ignore[operator]
        if bias is not None:
            layer.bias.copy_(bias)  # type: ignore[operator]


class AuthorsPatchTST(nn.Module):
    def __init__(self, ours: nn.Module, c: PatchTSTConfig) -> None:
        super().__init__()
        self.patch, self.stride, self.channels_first = c.patch, c.stride, True
        self.pad = nn.ReplicationPad1d((0, c.stride))
        self.embed, self.places = nn.Linear(c.patch, c.width), nn.Parameter(torch.zeros(c.context, c.width))
        self.dropout = nn.Dropout(c.dropout)
        sizes = (c.width, c.heads, c.feedforward, c.dropout, c.activation_dropout, True)
        self.layers = nn.ModuleList(EncoderLayer(*sizes) for _ in range(c.layers))
        self.head = nn.Linear(c.context * c.width, c.horizon)
        w = ours.state_dict()
        _take(self.embed, w["embed.weight"], w["embed.bias"])
        _take(self.head, w["head.weight"], w["head.bias"])
        with torch.no_grad():
            self.places.copy_(w["positions.scheme.table.weight"])
        for layer, block in zip(self.layers, ours.encoder.blocks):  # type: ignore[union-attr, arg-type]
            layer.take(block)  # type: ignore[operator]

    def forward(self, past: Tensor) -> Tensor:
        mean = past.mean(1, keepdim=True).detach()
        deviation = torch.sqrt(past.var(1, keepdim=True, unbiased=False) + 1e-5).detach()
        x = self.pad(((past - mean) / deviation).permute(0, 2, 1)).unfold(-1, self.patch, self.stride)
        batch, channels, patches, _ = x.shape
        x = self.dropout(self.embed(x).reshape(batch * channels, patches, -1) + self.places)
        scores = None
        for layer in self.layers:
            x, scores = layer(x, scores)
        y = self.head(x.reshape(batch, channels, -1)).permute(0, 2, 1)
        found: Tensor = y * deviation + mean
        return found


class AuthorsDLinear(nn.Module):
    def __init__(self, ours: nn.Module, c: DLinearConfig) -> None:
        super().__init__()
        self.kernel = c.kernel
        self.seasonal, self.trend = nn.Linear(c.lookback, c.horizon), nn.Linear(c.lookback, c.horizon)
        w = ours.state_dict()
        _take(self.seasonal, w["seasonal.weight"], w["seasonal.bias"])
        _take(self.trend, w["trend.weight"], w["trend.bias"])

    def forward(self, past: Tensor) -> Tensor:
        before = (self.kernel - 1) // 2
        ends = past[:, :1].repeat(1, before, 1), past[:, -1:].repeat(1, self.kernel - 1 - before, 1)
        mean = F.avg_pool1d(torch.cat([ends[0], past, ends[1]], 1).permute(0, 2, 1), self.kernel, 1).permute(0, 2, 1)
        y = self.seasonal((past - mean).permute(0, 2, 1)) + self.trend(mean.permute(0, 2, 1))
        found: Tensor = y.permute(0, 2, 1)
        return found


class AuthorsITransformer(nn.Module):
    def __init__(self, ours: nn.Module, c: ITransformerConfig) -> None:
        super().__init__()
        self.embed, self.dropout = nn.Linear(c.lookback, c.width), nn.Dropout(c.dropout)
        sizes = (c.width, c.heads, c.feedforward, c.dropout, c.activation_dropout, False)
        self.layers = nn.ModuleList(EncoderLayer(*sizes) for _ in range(c.layers))
        self.norm, self.head = nn.LayerNorm(c.width), nn.Linear(c.width, c.horizon)
        w = ours.state_dict()
        for name, layer in {"embed": self.embed, "norm": self.norm, "head": self.head}.items():
            _take(layer, w[f"{name}.weight"], w[f"{name}.bias"])
        for layer, block in zip(self.layers, ours.encoder.blocks):  # type: ignore[union-attr, arg-type]
            layer.take(block)  # type: ignore[operator]

    def forward(self, past: Tensor) -> Tensor:
        mean = past.mean(1, keepdim=True).detach()
        deviation = torch.sqrt(past.var(1, keepdim=True, unbiased=False) + 1e-5).detach()
        x = self.dropout(self.embed(((past - mean) / deviation).permute(0, 2, 1)))
        for layer in self.layers:
            x, _ = layer(x, None)
        y = self.head(self.norm(x)).permute(0, 2, 1)
        found: Tensor = y * deviation + mean
        return found


PEERS: dict[str, Callable[..., nn.Module]] = {
    "patchtst": AuthorsPatchTST,
    "dlinear": AuthorsDLinear,
    "itransformer": AuthorsITransformer,
}


def training(model: nn.Module, values_TC: np.ndarray, c: PatchTSTConfig, batch: int, device: torch.device) -> Callable[[], float]:
    """Return a step of their loop: load, copy, forwards, backwards, Adam, and the loss read."""
    loader = DataLoader(WindowsOfHost(values_TC, c.lookback, c.horizon), batch, shuffle=True, drop_last=True)
    model.to(device).train()
    optimizer, criterion = torch.optim.Adam(model.parameters(), lr=1e-4), nn.MSELoss()

    def batches() -> Iterator[list[Tensor]]:
        while True:
            yield from loader

    stream = batches()

    def step() -> float:
        past, future = (part.float().to(device) for part in next(stream))
        optimizer.zero_grad()
        loss = criterion(model(past), future)
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step

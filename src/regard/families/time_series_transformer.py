"""The Transformer that writes a series value after value, each drawn from a distribution: transformers' TimeSeriesTransformer.

The encoder-decoder of 2017 on numbers, with what DeepAR (Salinas et al. 2020) gives its recurrent network. The vector of a time t
is W [x_(t-l) of each lag l and channel, static numbers, log(1 + |loc|), log scale, what is known of t] + position.

    x                        (values - loc) / scale by the last `lookback` - max(lags) values of each window
    encoder                  those times; lags reach back into the values before them
    decoder                  causal over the horizon, reading the encoder; its first lag is the value before the one it writes
    head                     a linear layer for each parameter of the distribution of the next value, or one for the value

While it trains, the values of the horizon are given (`future_BHC`). Without them it draws `samples` paths, feeding back what it
drew, and returns at each step the distribution of its kind with the mean and the variance of the mixture over all paths; the
first step is exact. With samples=0 it follows the path of its own means. Static numbers begin with the numbers of categories,
where there are `cardinalities`. Decoding keeps keys and values, where transformers computes all times again for each.

Differs from transformers in: every value counts as observed; there is no layer drop.

Dims: B batch, L look-back, H horizon, M = L + H, C channels, E known, S static numbers, P parameters, R = B x paths, N features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from regard.core.config import Bounds, Count
from regard.core.errors import UserError
from regard.core.rng import derive_seed
from regard.families.base import Family, Sizes
from regard.families.itransformer import window_inputs
from regard.model.attention import KeysValues
from regard.model.block import BodyConfig, Stack
from regard.model.embedding import InputPositions
from regard.model.init import initialise
from regard.model.layers import Activation, Linear
from regard.model.series import ForecastSettings, Lookback
from regard.model.series.distributions import DISTRIBUTIONS
from regard.model.series.parts import InstanceNorm, Level
from regard.model.visibility import causal, full


@dataclass(frozen=True, kw_only=True)
class TimeSeriesTransformerConfig(BodyConfig, ForecastSettings):
    family: Literal["time_series_transformer"] = "time_series_transformer"
    lookback: Lookback = 103  # times that are read, those of the longest lag among them
    width: Count = 64
    heads: Count = 2
    layers: Count = 2
    feedforward: Count = 32
    activation: Activation = "gelu"
    attention_dropout: float = 0.1
    activation_dropout: float = 0.1
    position: str = "sinusoidal-halves"
    encoder_layers: Annotated[int, Bounds(0)] = 0  # 0: as many as layers
    decoder_layers: Annotated[int, Bounds(0)] = 0  # 0: as many as layers
    lags: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7)  # how far back the values lie that each time is described by
    samples: Annotated[int, Bounds(0, zero="the path of means")] = 100  # paths that a forecast is made of
    distribution: Literal["", "normal", "student_t", "negative_binomial"] = ""  # empty: that of objective.loss
    channels: Annotated[int, Bounds(0, zero="those of the data")] = 0
    known_features: Annotated[int, Bounds(0, zero="those of the data")] = 0
    static_features: Annotated[int, Bounds(0, zero="those of the data")] = 0  # numbers; categories come before them
    cardinalities: tuple[int, ...] = ()  # of static categories
    embedding_widths: tuple[int, ...] = ()  # of the vectors of each

    packable = False  # windows lie side by side

    def __post_init__(self) -> None:
        super().__post_init__()
        wrong = [lag for lag in self.lags if lag < 1]
        if not self.lags or wrong or len({*self.lags}) < len(self.lags):
            given = ",".join(map(str, self.lags))
            raise UserError(f"model.lags={given} are times to look back, each 1 or more and named once; give such as 1,2,3,24.")
        if self.history < 1:
            raise UserError(
                f"model.lookback={self.lookback} leaves nothing behind the longest lag, {max(self.lags)}; give a longer one."
            )
        if self.visibility != "full" or self.mixer != "softmax":
            key, value = ("visibility", self.visibility) if self.visibility != "full" else ("mixer", self.mixer)
            raise UserError(f"model.{key}={value} is not for model.family=time_series_transformer, which decodes; leave it out.")
        if self.position not in ("sinusoidal", "sinusoidal-halves", "none"):
            raise UserError(f"model.position={self.position} is not for this family; give sinusoidal, sinusoidal-halves or none.")
        if self.normalisation == "last":
            raise UserError("model.normalisation=last is not for this family; give standard, mean or none.")
        if len(self.cardinalities) != len(self.embedding_widths) or any(
            n < 1 for n in self.cardinalities + self.embedding_widths
        ):
            raise UserError(
                f"model.cardinalities has {len(self.cardinalities)} numbers and model.embedding_widths "
                f"{len(self.embedding_widths)}; give as many of both, each 1 or more."
            )

    @property
    def history(self) -> int:
        """Return how many times the encoder reads."""
        return self.lookback - max(self.lags)

    @property
    def depth(self) -> tuple[int, int]:
        return self.encoder_layers or self.layers, self.decoder_layers or self.layers

    @property
    def attentions(self) -> list[str]:
        encoder_layers, decoder_layers = self.depth
        written = [f"decoder.{n}.{kind}" for n in range(decoder_layers) for kind in ("self", "cross")]
        return [f"encoder.{n}.self" for n in range(encoder_layers)] + written


class GrownCache:
    """Keys and values of the times that are written, one after the other."""

    def __init__(self) -> None:
        self.kv_2RGLK: Tensor | None = None

    def append(self, kv_2RGLK: Tensor) -> Tensor:
        self.kv_2RGLK = kv_2RGLK if self.kv_2RGLK is None else torch.cat([self.kv_2RGLK, kv_2RGLK], 3)
        return self.kv_2RGLK


class ValueEmbedding(nn.Module):
    """Features of a time as a vector: W x + position, normalised."""

    def __init__(self, features: int, c: TimeSeriesTransformerConfig, first: int) -> None:
        super().__init__()
        self.project = Linear(features, c.width, bias=False)
        self.positions, self.first = InputPositions(c.position, c.width, c.maximum_length), first
        self.norm, self.dropout = nn.LayerNorm(c.width, eps=c.norm_epsilon), nn.Dropout(c.dropout)

    def forward(self, x_BLN: Tensor, begin: int = 0) -> Tensor:
        x_BLD = self.project(x_BLN)
        at_L = torch.arange(self.first + begin, self.first + begin + x_BLN.shape[1], device=x_BLN.device)
        where_LD = self.positions.embed(at_L)
        return self.dropout(self.norm(x_BLD if where_LD is None else x_BLD + where_LD.to(x_BLD.dtype)))


class TimeSeriesTransformer(nn.Module):
    teacher_forced = True  # an objective gives the values of the horizon

    def __init__(self, config: TimeSeriesTransformerConfig, sizes: Sizes, seed: int = 0) -> None:
        super().__init__()
        c = self.config = config
        self.channels = _agreed("channels", c.channels, sizes.heads.channels) or 1
        known = _agreed("known_features", c.known_features, sizes.heads.covariates)
        numbers = _agreed("static_features", c.static_features, sizes.heads.statics if not c.cardinalities else 0)
        asked = sizes.heads.distribution
        if sizes.heads.quantiles or (c.distribution and asked and asked != c.distribution):
            raise UserError(
                f"model.family=time_series_transformer draws values from {c.distribution or 'a distribution'}; set "
                f"objective.loss={c.distribution or 'student_t'}."
            )
        self.distribution = DISTRIBUTIONS.get(c.distribution or asked)
        self.normalise = InstanceNorm(c.normalisation)
        self.embedders = nn.ModuleList(nn.Embedding(n, width) for n, width in zip(c.cardinalities, c.embedding_widths))
        self.features = features = self.channels * (len(c.lags) + 2) + sum(c.embedding_widths) + numbers + known
        encoder_layers, decoder_layers = c.depth
        self.read, self.write = ValueEmbedding(features, c, 0), ValueEmbedding(features, c, c.history)
        self.encoder, self.decoder = Stack(c, encoder_layers, "encoder"), Stack(c, decoder_layers, "decoder", cross=True)
        names = self.distribution.names if self.distribution else ("value",)
        self.head = nn.ModuleList(Linear(c.width, self.channels) for _ in names)
        initialise(self, seed)

    def forward(
        self,
        past_BLC: Tensor,
        known_BME: Tensor | None = None,
        static_BS: Tensor | None = None,
        future_BHC: Tensor | None = None,
    ) -> Tensor:
        """Return parameters_BHCP, or future_BHC without a distribution."""
        if future_BHC is None and past_BLC.is_meta:  # operations are counted of one pass over all times
            future_BHC = past_BLC.new_empty(len(past_BLC), self.config.horizon, self.channels)
        if future_BHC is None:
            return self._ahead(past_BLC, known_BME, static_BS)
        c, (level, about_BMN) = self.config, self._described(past_BLC, known_BME, static_BS)
        x_BMC = (torch.cat([past_BLC, future_BHC], 1) - level.loc_B1C) / level.scale_B1C
        memory_BLD = self._encode(x_BMC[:, : c.lookback], about_BMN)
        x_BHD = self.write(self._features(x_BMC, about_BMN, c.lookback, c.lookback + c.horizon))
        view = causal.over(c.horizon, c.horizon, device=past_BLC.device)
        reads = full.over(c.horizon, c.history, device=past_BLC.device)
        return self._written(self.decoder(x_BHD, view, self.decoder.project_kv(memory_BLD), reads), level)

    @torch.no_grad()
    def sample(
        self,
        past_BLC: Tensor,
        known_BME: Tensor | None = None,
        static_BS: Tensor | None = None,
        *,
        paths: int = 100,
        generator: torch.Generator,
    ) -> Tensor:
        """Return values_BSHC of S paths that are drawn one value after the other."""
        if (drawn_from := self.distribution) is None:
            raise UserError("this model forecasts one number for each value, so there are no paths to draw.")
        found = self._walk(past_BLC, known_BME, static_BS, paths, lambda params: drawn_from.sample(params, generator))
        return found[0].unflatten(0, (-1, paths))

    def _ahead(self, past_BLC: Tensor, known_BME: Tensor | None, static_BS: Tensor | None) -> Tensor:
        if (drawn_from := self.distribution) is None or not self.config.samples:
            follow = (lambda value: value) if drawn_from is None else drawn_from.mean
            return self._walk(past_BLC, known_BME, static_BS, 1, follow)[1]
        generator = torch.Generator(past_BLC.device).manual_seed(derive_seed(0, "paths"))
        paths = self.config.samples
        found = self._walk(past_BLC, known_BME, static_BS, paths, lambda params: drawn_from.sample(params, generator))
        return drawn_from.mixed(found[1].unflatten(0, (-1, paths)), 1)

    def _walk(
        self,
        past_BLC: Tensor,
        known_BME: Tensor | None,
        static_BS: Tensor | None,
        paths: int,
        choose: Callable[[Tensor], Tensor],
    ) -> tuple[Tensor, Tensor]:
        """Write the horizon time after time; return values_RHC and parameters_RHCP of all paths, those of a window in a row."""
        c, (level, about_BMN) = self.config, self._described(past_BLC, known_BME, static_BS)
        x_BLC = (past_BLC - level.loc_B1C) / level.scale_B1C
        memories = self.decoder.project_kv(self._encode(x_BLC, about_BMN))

        def each(part: Tensor) -> Tensor:
            return part.repeat_interleave(paths, 0) if paths > 1 else part

        memories = [KeysValues(*map(each, memory)) for memory in memories]
        x_RMC, about_RMN, level = each(x_BLC), each(about_BMN), Level(*map(each, level))
        caches, values, written = [GrownCache() for _ in memories], list[Tensor](), list[Tensor]()
        for h in range(c.horizon):
            x_R1D = self.write(self._features(x_RMC, about_RMN, c.lookback + h, c.lookback + h + 1), h)
            view, reads = (full.over(1, keys, device=past_BLC.device) for keys in (h + 1, c.history))
            params = self._written(self.decoder(x_R1D, view, memories, reads, caches), level)
            value_R1C = choose(params)
            x_RMC = torch.cat([x_RMC, (value_R1C - level.loc_B1C) / level.scale_B1C], 1)
            values.append(value_R1C)
            written.append(params)
        return torch.cat(values, 1), torch.cat(written, 1)

    def _described(self, past_BLC: Tensor, known_BME: Tensor | None, static_BS: Tensor | None) -> tuple[Level, Tensor]:
        """Return the level of each window, and what describes each time of it but its lags."""
        c = self.config
        _, level = self.normalise(past_BLC[:, -c.history :])
        parts = [level.loc_B1C[:, 0].abs().log1p(), level.scale_B1C[:, 0].log()]
        if static_BS is not None:
            count = len(self.embedders)
            embedded = [table(static_BS[:, n].long()) for n, table in enumerate(self.embedders)]
            parts = [*embedded, static_BS[:, count:], *parts]
        about_BMN = torch.cat(parts, -1)[:, None].expand(-1, c.lookback + c.horizon, -1)
        return level, about_BMN if known_BME is None else torch.cat([about_BMN, known_BME], -1)

    def _features(self, x_BMC: Tensor, about_BMN: Tensor, begin: int, end: int) -> Tensor:
        """Return what describes the times from `begin` to `end`: values before them, and the rest."""
        lagged_BLN = torch.stack([x_BMC[:, begin - lag : end - lag] for lag in self.config.lags], -1).flatten(2)
        found = torch.cat([lagged_BLN, about_BMN[:, begin:end]], -1)
        if found.shape[-1] != self.features:
            raise UserError(
                f"this model describes a time by {self.features} numbers, and was given {found.shape[-1]}: what "
                "is known in advance and what is static must be as they were in training."
            )
        return found

    def _encode(self, x_BLC: Tensor, about_BMN: Tensor) -> Tensor:
        c = self.config
        view = full.over(c.history, c.history, device=x_BLC.device)
        return self.encoder(self.read(self._features(x_BLC, about_BMN, max(c.lags), c.lookback)), view)

    def _written(self, x_BHD: Tensor, level: Level) -> Tensor:
        raw_BHCP = torch.stack([layer(x_BHD) for layer in self.head], -1)
        if self.distribution is None:
            return self.normalise.back(raw_BHCP[..., 0], level)
        return self.distribution.parameters(raw_BHCP, level.loc_B1C, level.scale_B1C)


def _agreed(name: str, config: int, data: int) -> int:
    """Return a number that a config or the data gives, or both alike."""
    if config and data and config != data:
        raise UserError(f"model.{name}={config}, and the data has {data}; give as many columns, or leave the setting out.")
    return config or data


FAMILY = Family(
    name="time_series_transformer",
    config=TimeSeriesTransformerConfig,
    build=TimeSeriesTransformer,
    inputs=window_inputs,
    capabilities=frozenset({"forecasting", "covariates", "static_covariates", "attention"}),
)

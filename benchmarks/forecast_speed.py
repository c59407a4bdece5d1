"""Training windows a second of PatchTST, DLinear and iTransformer: ours beside their authors' layout in plain PyTorch.

    python -m benchmarks.forecast_speed [patchtst dlinear itransformer] [steps=3] [rounds=5] [rows=8640]

Shapes are those of ETTh1 in the published tables, the values random. Both have the same weights and must find the same forecast
and the same loss first. Ours are steps of the training loop: windows are gathered by index from one tensor on the device; on a
GPU steps are recorded and play back as one launch. Theirs load each window from the host (benchmarks/peers/forecasting.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.lra import typed, whole
from benchmarks.measure import Bar, Row, alternate, peak_bytes, row, write
from benchmarks.peers.forecasting import PEERS, training
from benchmarks.steps import CUDA, DEVICE, SETTINGS, must_agree, ours, times
from regard.data.batching.series import SeriesStore, WindowBatches, Windows
from regard.families import build_model
from regard.families.base import Heads
from regard.families.dlinear import DLinearConfig
from regard.families.itransformer import ITransformerConfig
from regard.families.patchtst import PatchTSTConfig
from regard.objectives.forecasting import ForecastingConfig, ForecastingLoss

CHANNELS = 7
NARROW: dict[str, Any] = dict(width=16, heads=4, feedforward=128, dropout=0.3, activation_dropout=0.3)
MODELS: dict[str, tuple[Any, int]] = {  # settings and windows of a batch
    "patchtst": (PatchTSTConfig(lookback=336, horizon=96, **NARROW), 128),
    "dlinear": (DLinearConfig(lookback=336, horizon=96, normalisation="none"), 64),
    "itransformer": (ITransformerConfig(lookback=96, horizon=96, width=256, feedforward=256, layers=2), 64),
}
BAR: Bar = {"floor": 3, "goal": 8}


def race(name: str, rows: int, steps: int, rounds: int) -> Row:
    config, batch = MODELS[name]
    values_TC = np.random.default_rng(0).standard_normal((rows, CHANNELS)).cumsum(0).astype(np.float32)
    values_TC = (values_TC - values_TC.mean(0)) / values_TC.std(0)
    store = SeriesStore(values_TC, np.zeros((rows, 0), np.float32), ends=[rows])
    starts = np.arange(rows - config.lookback - config.horizon + 1, dtype=np.int64)
    source = WindowBatches(Windows(store, starts, config.lookback, config.horizon, 0, rows), batch, 1)
    model = build_model(config, 0, vocabulary=0, heads=Heads(words=False, channels=CHANNELS))
    objective = ForecastingLoss(ForecastingConfig())
    peer = PEERS[name](model, config)
    with torch.no_grad():
        window = source.batch(np.arange(batch), 0).window()
        expected = peer.eval()(window.past_BLC)
        torch.testing.assert_close(model.eval()(*window.given), expected, atol=1e-4, rtol=1e-4)
        loss = objective(model, source.batch(np.arange(batch), 0)).total / batch
        must_agree(loss, (expected - window.future_BHC).square().mean())
    contenders: dict[str, Callable[[], object]] = {
        "regard": ours(model.to(DEVICE), objective, source, replace(SETTINGS, optimizer="adam", clip=0.0, precision="fp32")),
        "authors' layout": training(peer, values_TC, config, batch, DEVICE),
    }
    for run in contenders.values():
        times(run, 3 if CUDA else 1)()  # type: ignore[arg-type]
    peaks = {key: peak_bytes(run) for key, run in contenders.items()}
    several = {key: times(run, steps) for key, run in contenders.items()}  # type: ignore[arg-type]
    seconds = alternate(several, rounds, warm_up=2)
    told = f"{name}, look-back {config.lookback}, horizon {config.horizon}, batch {batch}"
    found = row(told, "windows/s", steps * batch, seconds, peaks=peaks, bars={"regard / authors' layout": BAR})
    print(told, {key: round(ratio, 2) for key, ratio in found["ratios"].items()}, flush=True)
    return found


def main(arguments: Sequence[str] = ()) -> None:
    named, chosen, _ = typed(arguments, MODELS, {"steps": "50" if CUDA else "3", "rounds": "7", "rows": "8640"})
    steps, rounds, rows = (whole(chosen[key])[0] for key in ("steps", "rounds", "rows"))
    found = [race(name, rows, steps, rounds) for name in named or MODELS]
    setting = (
        f"Steps of training in fp32, {CHANNELS} channels, random values of {rows:,} rows in the shapes of ETTh1, and the same "
        "weights, forecast and loss. The peer loads windows without worker processes. Peaks are of what a step takes. On a "
        "CPU, the machine was shared with other work."
    )
    write("forecast_speed", title="Training of forecasting models", setting=setting, rows=found, versions={})


if __name__ == "__main__":
    main(sys.argv[1:])

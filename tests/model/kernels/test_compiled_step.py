"""Compiled searches against plain ones: the same texts; only traced, without C++."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import UserError
from regard.decode.algorithm import CapturedGraphs, sessions_on
from regard.decode.config import DecodeConfig
from regard.model.kernels import compiled_step
from regard.model.kernels.compiled_step import CompiledRecorder
from regard.model.layers import pack
from tests.decode.test_cuda_graphs import SAMPLED, alike, translate
from tests.decode.toy import lively

CPU = torch.device("cpu")


@pytest.mark.slow
@pytest.mark.parametrize("beam", [3, SAMPLED])
def test_traced_searches_find_what_plain_ones_find(beam: int) -> None:
    torch._dynamo.reset()
    model, sessions = lively(), CapturedGraphs(CompiledRecorder("eager"))
    pack(model)  # products that a compiler lays out by itself
    for seed, limits in ((1, [18, 4, 11]), (2, [20, 20, 3])):
        alike(translate(seed, limits, beam=beam, sessions=sessions, model=model), translate(seed, limits, beam=beam, model=model))


def test_what_cannot_be_compiled_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Search:
        def advance(self) -> None:
            torch._dynamo.graph_break()

    step = CompiledRecorder("eager").record(Search().advance)
    with pytest.raises(UserError, match="cannot be compiled"):
        step()
    monkeypatch.setattr(compiled_step.shutil, "which", lambda name: None)
    with pytest.raises(UserError, match="needs a C\\+\\+ compiler"):
        sessions_on(CPU, compiled=True)


@pytest.mark.parametrize("other", [{"weights": "int8"}, {"prompt_lookup": 3}, {"draft": "runs/x"}, {"share_prefix": True}])
def test_it_compiles_plain_steps_alone(other: dict[str, object]) -> None:
    with pytest.raises(UserError, match=f"decode.{next(iter(other))} out"):
        DecodeConfig(compile=True, search="greedy", **other)  # type: ignore[arg-type]

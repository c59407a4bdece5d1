"""Transformer-XL against tensors that transformers 4 computed, with its weights; and its own settings.

The fixtures are five small models, each of which has read three segments of eight tokens.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from regard.core.errors import UserError
from regard.core.packing import Segment
from regard.families.base import Sizes
from regard.families.transformer_xl import FAMILY, TransformerXLConfig, build
from regard.interop.huggingface import read_public
from regard.interop.huggingface.registry import layout_of
from regard.model.memory.segments import reading
from regard.model.probe import probe
from regard.runs.load import assign
from tests.model.position.schemes import shared_data

NAMES = ("adaptive_div1", "adaptive_div2", "clamp_samelength", "plain_no_cutoffs", "prelnorm_tied_r")
SMALL = dict(width=24, heads=3, feedforward=40, layers=2, dropout=0.0, maximum_length=4, memory=3)


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def folder_of(name: str, tmp_path: Path) -> Path:
    """Return a folder as transformers would have written it."""
    data = shared_data("fixtures/transformer_xl")
    config = (data / f"{name}.config.json").read_text("utf-8").replace("{", '{"model_type": "transfo-xl",', 1)
    (tmp_path / "config.json").write_text(config, "utf-8")
    shutil.copy(data / f"{name}.weights.safetensors", tmp_path / "model.safetensors")
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_every_tensor_of_three_segments(name: str, tmp_path: Path) -> None:
    public = read_public(folder_of(name, tmp_path))
    model: Any = FAMILY.build(public.config, Sizes(vocabulary=public.vocabulary), 0).eval()
    assign(model, public.weights)
    expected = load_file(shared_data("fixtures/transformer_xl") / f"{name}.io.safetensors")
    with reading(model) as memory, probe(model) as seen:
        for k in range(3):
            ids = expected["input_ids"][:, 8 * k : 8 * k + 8]
            x = model.hidden(ids, Segment(torch.arange(2), torch.full((2,), k == 0), 2))
            memory.commit()
            close(x, expected[f"seg{k}.last_hidden"])
            close(model.head(x).log_softmax(-1), expected[f"seg{k}.logprobs"])
            for n in range(3):
                close(memory.states_NSMD[n].transpose(0, 1), expected[f"seg{k}.mem{n}"])  # type: ignore[index]
                close(seen[f"decoder.{n}.self"].weights(), expected[f"seg{k}.attn{n}"])
            # Losses of a segment that nothing came before. With clusters transformers has them by cluster, not by token.
            losses = -model(ids)[:, :-1].log_softmax(-1).gather(2, ids[:, 1:, None])
            close(losses.flatten().sort()[0], expected[f"seg{k}.losses_fresh"].flatten().sort()[0])


def test_it_is_read_and_not_written(tmp_path: Path) -> None:
    config = read_public(folder_of("adaptive_div2", tmp_path)).config
    assert (config.memory, config.memory_start, config.head_width) == (12, "zeros", 8)
    with pytest.raises(UserError, match="cannot be written for transformers"):
        layout_of(config)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (dict(clamp=-1), "model.clamp=-1 must be"),
        (dict(clamp=5, position="rotary"), "model.clamp=5 is for model.position=transformer-xl"),
        (dict(untie=False, position="alibi"), "model.untie=false is for model.position=transformer-xl"),
        (dict(final_norm=True), "model.final_norm=true is for model.norm_placement=pre"),
        (dict(cutoffs=(20, 10)), "model.cutoffs=20,10 must rise"),
        (dict(cutoffs=(0, 10)), "model.cutoffs=0,10 must rise"),
        (dict(divisor=2), "model.divisor=2 is for clusters"),
        (dict(cutoffs=(5,), divisor=100), "leaves nothing of 24 numbers"),
        (dict(cutoffs=(5,), tie_projections=False), "model.tie_projections=false is for model.divisor above 1"),
        (dict(position="learned"), "counts from the start of a segment"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        TransformerXLConfig(**{**SMALL, **settings})  # type: ignore[arg-type]


def test_a_cluster_behind_the_vocabulary_is_refused() -> None:
    with pytest.raises(UserError, match=r"model\.cutoffs ends with 40, and the vocabulary has 31 tokens"):
        build(TransformerXLConfig(**SMALL, cutoffs=(40,)), Sizes(vocabulary=31), 0)  # type: ignore[arg-type]


def test_the_published_base_has_its_parameters() -> None:
    """151M on WikiText-103: 267,735 words in clusters, widths of 410 divided by 1, its code's default for this size."""
    config = TransformerXLConfig(cutoffs=(20_000, 40_000, 200_000))
    with torch.device("meta"):
        model = FAMILY.build(config, Sizes(vocabulary=267_735), 0)
    assert round(sum(p.numel() for p in model.parameters()) / 1e6) == 151

"""A graph written by PyTorch's exporter and run by ONNX Runtime; the texts are in tests/commands/test_export_engine.py."""

from __future__ import annotations

from pathlib import Path

import onnxruntime
import pytest
import torch

from regard.core.errors import UserError
from regard.families.base import Heads
from regard.interop.exported import ExportedModel
from regard.interop.onnx.check import compare, runner
from regard.interop.onnx.graphs import Graph, graphs_of
from regard.interop.onnx.write import write_graph
from tests.interop.onnx.test_graphs import model_of


@pytest.mark.slow
def test_a_classifier_of_images_and_one_with_other_weights(tmp_path: Path) -> None:
    """The check finds the folder of one model to be that model's, and not another's."""
    choices = dict(image_size=8, patch=4, layers=1)
    model, other = (model_of("vit", choices, heads=Heads(words=False, classes=3)) for _ in range(2))
    with torch.no_grad():
        other.classes.project.weight += 0.01
    (graph,) = graphs_of(model)
    write_graph(graph, tmp_path / "model.onnx")
    (right,), (wrong,) = (compare(onnxruntime, tmp_path, ExportedModel("vit", one, None)) for one in (model, other))
    assert right.found < 1e-5
    assert right.passed
    assert not wrong.passed
    images_BYXC = torch.randint(0, 256, (5, 8, 8, 3), dtype=torch.uint8)
    (found,) = runner(onnxruntime, tmp_path, [graph])("model", [images_BYXC])
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(found), model(images_BYXC), atol=1e-5, rtol=0)


class Bessel(torch.nn.Module):
    """What ONNX has no operator for."""

    def forward(self, x_BL: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(x_BL)


def test_a_model_without_operators_is_one_sentence(tmp_path: Path) -> None:
    graph = Graph("model", Bessel(), {"x": torch.randn(2, 3)}, {"x": {0: "rows"}}, ["y"])
    with pytest.raises(UserError, match="the graph 'model' of this model cannot be written as ONNX"):
        write_graph(graph, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()

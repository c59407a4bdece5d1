"""Snapshots: there when asked for, whole or not at all, close to the weights, and without a word in what is trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.core.errors import UserError
from regard.training.resume import read_snapshot, snapshots, write_snapshot
from tests.training.test_loop import SHORT, run, saved


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(5, 3)
        self.b = nn.Embedding(3, 5)
        self.b.weight = self.a.weight


def test_weights_come_back_nearly_and_tied(tmp_path: Path) -> None:
    model = Tied()
    write_snapshot(tmp_path, 20, model.state_dict(keep_vars=True))
    write_snapshot(tmp_path, 5, model.state_dict(keep_vars=True))
    assert list(snapshots(tmp_path)) == [5, 20]
    kept = read_snapshot(snapshots(tmp_path)[20])
    assert kept["a.weight"].dtype == torch.float32
    torch.testing.assert_close(kept["a.weight"], model.a.weight.detach(), atol=1e-3, rtol=1e-3)
    assert kept["a.weight"] is not None
    assert torch.equal(kept["a.weight"], kept["b.weight"])
    assert snapshots(tmp_path)[20].stat().st_size < 2 * 4 * model.a.weight.numel() + 600
    assert not list((tmp_path / "snapshots").glob(".*"))


def test_what_half_precision_cannot_hold_is_held_at_its_largest(tmp_path: Path) -> None:
    write_snapshot(tmp_path, 1, {"a": torch.tensor([1e9, -1e9, 1.5]), "n": torch.tensor([7])})
    kept = read_snapshot(snapshots(tmp_path)[1])
    assert kept["a"].tolist() == [65504, -65504, 1.5]
    assert kept["n"].tolist() == [7]


def test_other_files_are_no_snapshots(tmp_path: Path) -> None:
    (tmp_path / "snapshots").mkdir()
    for name in ("step-x.safetensors", "step-3.safetensors.part", ".step-4.tmp", "step-5.bin"):
        (tmp_path / "snapshots" / name).write_bytes(b"")
    assert snapshots(tmp_path) == {}
    assert snapshots(tmp_path / "nowhere") == {}


def test_a_training_writes_them_and_ends_with_the_same_weights(tmp_path: Path) -> None:
    run(tmp_path / "a", SHORT)
    run(tmp_path / "b", replace(SHORT, snapshot_every=5))
    plain, looked = (saved(tmp_path / name, "step") for name in ("a", "b"))
    assert snapshots(tmp_path / "a") == {}
    assert list(snapshots(tmp_path / "b")) == [5, 10]
    assert all(torch.equal(one, other) for one, other in zip(plain.values(), looked.values()))


def test_a_negative_number_of_steps_is_refused() -> None:
    with pytest.raises(UserError, match=r"train\.snapshot_every=-1"):
        replace(SHORT, snapshot_every=-1)

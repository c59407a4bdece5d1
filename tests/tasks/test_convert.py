"""A dense checkpoint opened with a sparse visibility keeps its weights; a table of positions that grows is tiled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.commands.explain import explain_tree
from regard.commands.train import train_run
from regard.core.errors import UserError
from regard.families.bert import BERTConfig
from regard.model.embedding import tiled
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.pretrained import start_of
from regard.tasks.masked_lm.prepare import prepare
from tests.tasks.tiny_masks import data, trained
from tests.tasks.tiny_text import quiet

CPU = torch.device("cpu")
SETTINGS = [
    "train.steps=3",
    "train.warmup=1",
    "data.valid=",
    "data.test=",
    "data.valid_fraction=0.1",
    "train.tokens_per_batch=384",
]


def converted(*settings: str):
    start = f"task.init_from={trained('bert')}"
    return load_recipe_to_train("bert", [start, f"data.train={data()}", *SETTINGS, *settings])


def test_a_dense_bert_becomes_a_bigbird_with_more_positions(tmp_path: Path) -> None:
    recipe = converted("model.visibility=bigbird(4, 3, 2, 1)", "model.maximum_length=60", "data.window=60")
    assert isinstance(recipe.model, BERTConfig)
    assert (recipe.model.visibility, recipe.model.maximum_length) == ("bigbird(4, 3, 2, 1)", 60)
    ours, theirs = prepare(recipe, None, quiet).model().state_dict(), start_of(str(trained("bert"))).weights
    table = "embed.positions.scheme.table.weight"
    assert all(torch.equal(ours[name], theirs[name]) for name in ours if name != table)
    assert torch.equal(ours[table], torch.cat([theirs[table]] * 3)[:60])
    outcome = train_run(recipe, tmp_path / "run", CPU, quiet)
    assert outcome.progress.step == 3
    again = load_recipe_to_train("bert", [f"task.init_from={tmp_path / 'run'}", f"data.train={data()}", *SETTINGS])
    assert again.model.maximum_length == 60  # and a start of its own again


def test_where_everybody_is_seen_anyway_nothing_changes() -> None:
    """On texts shorter than the window, a dense model and its sparse copy are one."""
    dense, sparse = (prepare(converted(*more), None, quiet).model().eval() for more in ([], ["model.visibility=window(30)"]))
    ids, lengths = torch.randint(5, dense.embed.tokens.num_embeddings, (3, 24)), torch.tensor([24, 10, 3])
    with torch.no_grad():
        torch.testing.assert_close(sparse(ids, lengths), dense(ids, lengths), atol=1e-5, rtol=1e-5)


def test_explain_says_what_computes_it() -> None:
    long = ["model.maximum_length=4096"]
    assert "computed    encoder all pairs at once (all pairs are visible)" in explain_tree("bert-base", long)
    said = explain_tree("bert-base", [*long, "model.visibility=bigbird(64)"])
    needed = "15% of blocks of 64 needed"
    assert f"on a CPU blocks by the fused kernel ({needed}, 1.8 times the time a pair)" in said
    assert f"on a GPU blocks by FlexAttention ({needed})" in said
    assert "attention   encoder bigbird(64) & padding, where bigbird(64) is block(64, 1) | global_(64) | last(64)" in said
    for mixer, words in {"favor": "sums of all tokens", "conv": "one convolution", "additive": "all pairs at once"}.items():
        assert f"computed    encoder {words}" in explain_tree("bert-base", [f"model.mixer={mixer}"])
    assert "computed    decoder chunks of 128 tokens" in explain_tree("gpt2-small", ["model.mixer=linear-relu"])


def test_fewer_positions_are_refused() -> None:
    with pytest.raises(UserError, match=r"model.maximum_length=12 cannot be set"):
        converted("model.maximum_length=12")


def test_rows_that_no_position_has_stay_first() -> None:
    table = torch.arange(6.0)[:, None]
    assert tiled(table, 11, first=2)[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 2, 3, 4, 5, 2]
    assert tiled(table, 13)[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0]


def test_training_over_blocks_is_training_over_all_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same recipe, once by each kernel: the same losses."""
    from regard.model.sparse import dispatch

    recipe = converted("model.visibility=bigbird(2, 3, 2, 1)", "model.dropout=0", "train.checkpoint_every=3")
    weights = []
    for cost in (0.0, 100.0):
        monkeypatch.setitem(dispatch.SHORTEST, "cpu", 1)
        monkeypatch.setitem(dispatch.PAIR, "cpu", {2: cost})
        outcome = train_run(replace(recipe), tmp_path / str(cost), CPU, quiet)
        weights.append(outcome.run.weights().tensors("model"))
    for name, tensor in weights[0].items():
        other = weights[1][name]
        if name.endswith("project.bias"):  # that of keys has no gradient but rounding, which Adam scales up
            tensor, other = (torch.cat([each.chunk(3)[0], each.chunk(3)[2]]) for each in (tensor, other))
        torch.testing.assert_close(other, tensor, atol=1e-4, rtol=1e-3)

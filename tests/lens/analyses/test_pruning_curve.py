"""`regard prune` from end to end: heads go in order, the curve is the score of what is left, and the new run is a run."""

import json

import pytest
import torch

from regard.commands import prune
from regard.commands.prune import Wish, prune_run, pruned_answers
from regard.core.errors import UserError
from regard.families.gpt import GPT, GPTConfig
from regard.lens.analyses import importance as curves
from regard.lens.analyses.importance import (
    HIGH,
    LOW,
    counts,
    hard_concrete,
    kept_count,
    learn_gates,
    order_of_removal,
    random_scores,
    without_first,
)
from regard.model.probe import attentions, probe
from regard.runs.folder import Run
from regard.runs.task import TASKS
from regard.tasks.registry import open_run
from tests.command import regard, trained
from tests.lens.some_subjects import RUNS, answers, text_of
from tests.tasks import tiny_text

SCORES = {"a": (0.3, 0.1, 0.2), "b": (0.0, 0.05), "c": (0.9,)}


def test_least_important_first_and_one_of_each_stays():
    order = order_of_removal(SCORES)
    assert order == [("b", 0), ("a", 1), ("a", 2)]
    assert without_first(order, 2) == {"b": [0], "a": [1]}
    assert without_first(order, 0) == {}


def test_counts():
    assert counts(24, 6, also=(12,)) == [24, 22, 20, 19, 17, 15, 13, 12, 11, 10, 8, 6]
    assert counts(3, 3) == [3]
    assert kept_count(0.5, SCORES) == 3
    assert kept_count(1, SCORES) == 6
    for keep in (0.0, -0.5, 1.5, float("nan")):
        with pytest.raises(UserError, match="--keep"):
            kept_count(keep, SCORES)
    with pytest.raises(UserError, match=r"each of the 3 attentions keeps one; give 0\.5 or more"):
        kept_count(0.3, SCORES)
    assert random_scores(SCORES, 1).scores == random_scores(SCORES, 1).scores != random_scores(SCORES, 2).scores


@pytest.fixture(scope="module")
def pruned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pruned") / "run"
    wish = Wish(keep=0.5, by="ablation")
    lines = list(prune_run(trained(), folder, wish, ["decode.search=greedy"], None, "cpu", lambda line: None))
    return folder, lines


def test_the_new_run_is_the_old_one_with_those_heads_off(pruned):
    folder, _ = pruned
    run, whole = Run.open(folder), open_run(trained(), "cpu")
    small = open_run(folder, "cpu")
    kept = {name: a.heads for name, a in attentions(small.model).items()}
    assert sum(kept.values()) == 3
    gone = {entry.partition(":")[0]: entry.partition(":")[2].split("+") for entry in run.recipe.model.pruned}
    gates = {name: torch.ones(2) for name in kept}
    for name, heads in gone.items():
        gates[name][[int(head) for head in heads]] = 0
    text = [text_of("translator"), "the horse likes the bird ."]
    with probe(whole.model, gates=gates):
        expected = whole(text)
    assert small(text) == expected
    assert regard("predict", folder, text[0]).out == f"{expected[0]}\n"


def test_the_curve_is_the_score_of_what_is_left(pruned):
    folder, lines = pruned
    curve = json.loads((folder / "pruning.json").read_text())
    assert [point["kept"] for point in curve["points"]] == [6, 5, 4, 3]
    scored = json.loads(
        regard("evaluate", folder, f"data.test={trained().parent}/valid.tsv", "decode.search=greedy", "--json").out
    )
    assert curve["points"][-1]["score"] == pytest.approx(scored["bleu"], abs=1e-6)
    whole = json.loads(
        regard("evaluate", trained(), f"data.test={trained().parent}/valid.tsv", "decode.search=greedy", "--json").out
    )
    assert curve["points"][0]["score"] == pytest.approx(whole["bleu"], abs=1e-6)
    assert curve["metric"] == "bleu"
    assert len(lines) == 4 + 4 + 1
    assert "3 of 6 heads" in lines[-1]
    assert (folder / "pruning.png").stat().st_size > 1000


def test_it_can_be_explained_and_pruned_again(pruned, tmp_path):
    folder, _ = pruned
    told = json.loads(regard("explain", folder, "--json").out)
    assert told["parameters"] == sum(p.numel() for p in open_run(folder, "cpu").model.parameters())
    result = regard("prune", folder, tmp_path / "again", "--keep", "1", "--by", "random")
    assert result.code == 0, result.err
    assert Run.open(tmp_path / "again").recipe.model.pruned == Run.open(folder).recipe.model.pruned
    assert "3 of 3 heads" in result.out


@pytest.mark.parametrize("way", ["importance", "normalised", "random", "L0"])
def test_every_way_by_command(way, tmp_path):
    more = ["--steps", "3"] if way == "L0" else []
    picture = tmp_path / "curve.svg"
    result = regard("prune", trained(), tmp_path / "run", "--keep", "0.7", "--by", way, "--curve", picture, *more)
    assert result.code == 0, result.err
    assert f"drawn: {picture}" in result.out
    assert "4 of 6 heads" in result.out
    assert regard("evaluate", tmp_path / "run").code == 0


@pytest.mark.parametrize("name", ["writer", "labeller", "rater", "tagger", "answerer", "filler", "judge"])
def test_every_task(name, tmp_path, monkeypatch):
    """Those that are trained on data of their own: it is what they are pruned by."""
    monkeypatch.setattr(prune, "TEXTS", 3)
    monkeypatch.setattr(curves, "POINTS", 2)
    folder = RUNS[name][0]()
    recipe = Run.open(folder).recipe
    where = (recipe.data.valid or recipe.data.test or recipe.data.train)[0]
    result = regard("prune", folder, tmp_path / "run", "--keep", "0.5", "--data", where)
    assert result.code == 0, result.err
    assert not (folder / "errors.tsv").exists() or (folder / "errors.tsv").stat().st_mtime < (tmp_path / "run").stat().st_mtime
    assert regard("predict", tmp_path / "run", text_of(name)).code == 0
    assert Run.open(tmp_path / "run").recipe.model.pruned


def test_a_pruned_run_is_trained_further_and_exported(tmp_path, monkeypatch):
    """What begins with it has as many heads; what is exported has all, and says the same."""
    monkeypatch.setattr(prune, "TEXTS", 3)
    folder = tiny_text.trained()
    where = Run.open(folder).recipe.data.train[0]
    assert regard("prune", folder, tmp_path / "run", "--data", where, "--keep", "0.5").code == 0
    pruned = Run.open(tmp_path / "run").recipe.model.pruned
    assert sum(a.heads for a in attentions(open_run(tmp_path / "run", "cpu").model).values()) == 2
    more = [
        "gpt-finetune",
        f"task.init_from={tmp_path / 'run'}",
        f"data.train={where}",
        "data.valid=",
        "data.test=",
        "train.steps=2",
    ]
    more += [
        "data.valid_fraction=0.2",
        "train.warmup=1",
        "train.tokens_per_batch=64",
        "train.validate_every=2",
        "train.checkpoint_every=2",
    ]
    result = regard("train", *more, "--out", tmp_path / "more", "--device", "cpu")
    assert result.code == 0, result.err
    assert Run.open(tmp_path / "more").recipe.model.pruned == pruned
    assert regard("export", tmp_path / "run", tmp_path / "hf").code == 0
    small, whole = open_run(tmp_path / "run", "cpu"), open_run(tmp_path / "hf", "cpu")
    assert sum(a.heads for a in attentions(whole.model).values()) == 4
    ids = torch.arange(10)[None]
    torch.testing.assert_close(whole.model(ids), small.model(ids), atol=1e-5, rtol=1e-5)


def test_pruned_answers_leave_the_whole_ones_alone():
    whole = answers("translator")
    before = {name: p.clone() for name, p in whole.model.state_dict().items()}
    small = pruned_answers(whole, {"decoder.0.cross": [1]})
    assert attentions(small.model)["decoder.0.cross"].heads == 1
    assert attentions(whole.model)["decoder.0.cross"].heads == 2
    assert all(torch.equal(p, before[name]) for name, p in whole.model.state_dict().items())
    test = TASKS["translation"].read_test(Run.open(trained()).recipe)
    assert pruned_answers(whole, {}).evaluate(test).outputs == whole.evaluate(test).outputs


def test_hard_concrete_gates_are_open_as_often_as_they_should_be():
    """Louizos et al. 2018, equation 12: P(gate > 0) = sigmoid(a - beta log(-low / high))."""
    draw = torch.Generator().manual_seed(0)
    for a in (-2.0, 0.0, 1.5):
        gates = hard_concrete(torch.full((20000,), a), torch.rand(20000, generator=draw))
        expected = torch.sigmoid(torch.tensor(a) - 2 / 3 * torch.tensor(-LOW / HIGH).log())
        assert (gates > 0).float().mean() == pytest.approx(float(expected), abs=0.015)
        assert gates.min() >= 0
        assert gates.max() <= 1
    assert (gates == 1).any()


def test_learned_gates_find_the_head_that_is_needed():
    """A loss that only head 2 can lower keeps it open; a penalty closes the rest. No weight changes."""
    model = GPT(GPTConfig(width=16, heads=4, layers=1, feedforward=16, dropout=0.0, maximum_length=8), 10, seed=1)
    ids = torch.tensor([[1, 2, 3, 4]])
    before = {name: p.clone() for name, p in model.state_dict().items()}
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.3, generator=torch.Generator().manual_seed(p.numel()))
    before = {name: p.clone() for name, p in model.state_dict().items()}
    with torch.no_grad(), probe(model, gates={"decoder.0.self": torch.tensor([0.0, 0, 1, 0])}):
        wanted = model(ids)
    found = learn_gates(model, lambda step: (model(ids) - wanted).square().mean(), steps=150, penalty=0.002)
    chances = found.scores["decoder.0.self"]
    assert chances[2] == max(chances)
    assert chances[2] > 0.8
    assert max(chances[:2] + chances[3:]) < chances[2] - 0.1
    assert all(torch.equal(p, before[name]) for name, p in model.state_dict().items())
    with pytest.raises(UserError, match="penalty"):
        learn_gates(model, lambda step: model(ids).sum(), penalty=-1)

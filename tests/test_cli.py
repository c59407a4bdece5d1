"""Every verb as people type it, and the example of the front page."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import sacrebleu
import torch

import regard as package
from regard.commands.reference import is_key
from regard.families.published_sizes import SIZES
from regard.runs.recipe import builtin_names, load_recipe
from regard.training.logging import duration
from tests.command import SENTENCES, contents, copy_of_run, refused, regard, tiny, trained

VERBS = [
    *("demo", "recipes", "train", "evaluate", "predict", "generate", "chat", "score", "import", "export", "prune"),
    *("lens", "studio", "explain", "bench", "doctor"),
]
CAT = "the cat sees the dog ."


def printed(*arguments: object, stdin: bytes = b"") -> str:
    """What a command prints that goes well and has nothing to remark."""
    result = regard(*arguments, stdin=stdin)
    assert (result.code, result.err) == (0, ""), result.err
    return result.out


# ----------------------------------------------------------------------------------------------------------------------- help


def test_alone_it_tells_what_it_can_do() -> None:
    said = printed()
    assert said == printed("--help")
    assert [line.split()[0] for line in said.split("Commands:\n")[1].splitlines()[: len(VERBS)]] == VERBS
    assert "..." not in said.split("Commands:\n")[1]  # every verb's line is whole


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_page(verb: str) -> None:
    said = printed(verb, "--help")
    assert said.startswith(f"Usage: regard {verb}")
    assert not set("╭│╰─") & set(said)
    assert ("Examples:" in said) == (verb not in ("demo", "recipes", "doctor"))


@pytest.mark.parametrize("verb", VERBS)
def test_examples_begin_with_what_exists(verb: str) -> None:
    for line in printed(verb, "--help").partition("Examples:\n")[2].splitlines():
        assert f"regard {verb} " in line
        if verb in ("train", "explain") and (name := line.split()[2]) and not name.startswith("runs/"):
            assert name in builtin_names() or (verb == "explain" and (name in SIZES or is_key(name)))


# -------------------------------------------------------------------------------------------------------------------- recipes


def test_recipes() -> None:
    rows = json.loads(printed("recipes", "--json"))
    assert [row["name"] for row in rows] == builtin_names()
    for row in rows:
        assert row["task"] == load_recipe(row["name"]).task.name
        assert row["rows"]
        assert row["minutes"] > 0
        assert row["score"]
    table = printed("recipes")
    assert " 0.0M parameters" not in table
    assert "up to 20.0M parameters" in table  # of words there may be fewer
    assert "  2.2M parameters" in table
    assert all(row["name"] in table and row["command"] in table for row in rows)


# ---------------------------------------------------------------------------------------------------------------------- train


def test_a_dry_run_tells_the_cost_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = regard("train", tiny(), "train.steps=7", "--dry-run")
    assert result.code == 0
    assert "train.steps=7 (the recipe has 20)" in result.out
    assert len(result.out.splitlines()) < 12
    assert "[model]" not in result.out
    model = package.load(str(trained())).model
    assert f"{sum(p.numel() for p in model.parameters()):,}" in result.out
    assert "train: 40 pairs" in result.err
    assert contents(tmp_path) == {}


def test_a_dry_run_lists_only_settings_that_change_the_recipe(tmp_path: Path) -> None:
    same = ("train.steps=20", "train.average=1", "model.norm=layer", "model.family=transformer")
    said = regard("train", tiny(), *same, "model.width=32", "--dry-run", "--out", tmp_path / "run").out
    assert [line for line in said.splitlines() if line.startswith("  ")] == ["  model.width=32 (the recipe has 16)"]


def test_a_setting_that_the_recipe_leaves_to_its_default_is_listed_where_it_changes_that(tmp_path: Path) -> None:
    said = regard("train", tiny(), "model.norm=rms", "model.layers=1", "--dry-run", "--out", tmp_path / "run").out
    assert [line for line in said.splitlines() if line.startswith("  ")] == ["  model.norm=rms"]


def test_a_dry_run_has_all_settings_where_they_are_asked_for(tmp_path: Path) -> None:
    said = regard("train", tiny(), "train.steps=7", "--dry-run", "--full", "--out", tmp_path / "run").out
    assert "[train]\n" in said
    assert "\nsteps = 7\n" in said
    refused(regard("train", tiny(), "--full", "--out", tmp_path / "run"), "--full is for --dry-run")


def test_a_dry_run_is_refused_for_what_the_run_would_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = copy_of_run(tmp_path)
    before = contents(tmp_path)
    dry = ("train", tiny(), "--dry-run", "--out")
    refused(regard(*dry, "/proc/nope"), "--out /proc/nope cannot be made")
    refused(regard(*dry, run, "model.width=32"), "begun with other settings", "model.width=32 (was 16)")
    refused(regard(*dry, tiny()), "is a file")
    shorter = tmp_path / "shorter.tsv"
    shorter.write_text("".join(f"{source}\t{target}\n" for source, target in SENTENCES[:9]))
    recipe = run / "recipe.toml"
    recipe.write_text(recipe.read_text().replace(str(tiny().parent / "valid.tsv"), str(shorter)))
    refused(regard("train", recipe, "--dry-run", "--out", run), "the validation data is not what", "9 pairs now")
    assert regard("train", tiny(), "--dry-run", "--out", tmp_path / "new").code == 0
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    refused(regard(*dry, tmp_path / "new"), "a checkpoint of this model takes at least", "1000 bytes left")
    assert set(contents(tmp_path)) - {"shorter.tsv"} == set(before)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (99, "99 s"), (100, "1.7 min"), (5990, "99.8 min"), (6000, "1.7 hours"), (22842.1 * 60, "15.9 days")],
)
def test_how_long_in_the_unit_that_one_would_say(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_a_run_has_all_its_files_and_goes_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = regard("train", tiny(), "train.steps=2")
    assert result.code == 0
    assert "train.steps=2 (the recipe has 20)" in result.err
    assert "all settings: runs/tiny/recipe.toml" in result.err
    assert "[model]" not in result.err
    assert "run: runs/tiny" in result.out
    files = {
        "recipe.toml",
        "tokenizer.json",
        "data.json",
        "metrics.jsonl",
        "curves.png",
        "samples.txt",
        "README.md",
        "checkpoints",
    }
    assert files <= {path.name for path in (tmp_path / "runs" / "tiny").iterdir()}
    assert load_recipe("runs/tiny/recipe.toml") == load_recipe(str(tiny()), ["train.steps=2", "train.best=nll"])


def test_training_again_finds_nothing_to_do(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    before = contents(run / "checkpoints")
    result = regard("train", tiny(), "--out", run)
    assert result.code == 0
    assert "nothing left to train" in result.err
    assert contents(run / "checkpoints") == before


def test_more_steps_continue(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    result = regard("train", tiny(), "train.steps=25", "--out", run)
    assert result.code == 0
    assert "train.steps=25 (was 20)" in result.err
    assert "continuing from step 20 of 25" in result.err
    assert (run / "checkpoints" / "step-00000025").is_dir()


def test_two_vocabularies(tmp_path: Path) -> None:
    run = tmp_path / "o"
    assert regard("train", tiny(), "text.joint=false", "model.tie=output", "train.steps=2", "--out", run).code == 0
    assert {path.name for path in run.glob("tokenizer*")} == {"tokenizer.source.json", "tokenizer.target.json"}
    assert printed("predict", run, CAT)


# ------------------------------------------------------------------------------------------------------------------- evaluate


def test_evaluate(tmp_path: Path) -> None:
    outputs = tmp_path / "outputs.txt"
    scores = json.loads(printed("evaluate", trained(), "--json", "--output", outputs))
    references = [target for _, target in SENTENCES[44:]]
    said = outputs.read_text("utf-8").splitlines()
    assert scores["run"] == str(trained())
    assert scores["sentences"] == len(said) == len(references)
    assert scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(said, [references]).score)
    assert f"{scores['chrf']:.2f}" in printed("evaluate", trained())
    assert contents(tmp_path).keys() == {"outputs.txt"}


def test_evaluate_on_another_set_with_another_search(tmp_path: Path) -> None:
    (tmp_path / "other.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in SENTENCES[:7]))
    found = json.loads(printed("evaluate", trained(), f"data.test={tmp_path}/other.tsv", "decode.search=greedy", "--json"))
    assert found["sentences"] == 7


# -------------------------------------------------------------------------------------------------------------------- predict


def test_predict_says_the_same_whichever_way_it_is_asked(tmp_path: Path) -> None:
    texts = [source for source, _ in SENTENCES[:5]]
    said = printed("predict", trained(), *texts)
    assert said.splitlines() == package.load(str(trained()))(texts)
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in texts))
    assert printed("predict", trained(), "--input", tmp_path / "in.txt") == said
    assert printed("predict", trained(), stdin="\n".join(texts).encode()) == said
    assert printed("predict", trained(), *texts, "--output", tmp_path / "out.txt") == ""
    assert (tmp_path / "out.txt").read_text("utf-8") == said


def test_predict_many_lines_keeps_their_order() -> None:
    texts = [source for source, _ in SENTENCES] * 3
    said = printed("predict", trained(), stdin="\n".join(texts).encode()).splitlines()
    alone = dict(zip(texts, package.load(str(trained()))(texts)))
    assert said == [alone[text] for text in texts]


def test_predict_the_best_few_as_json() -> None:
    settings = ["decode.beam=3", "decode.n_best=3"]
    found = [json.loads(line) for line in printed("predict", trained(), CAT, "", "--json", *settings).splitlines()]
    assert [record["source"] for record in found] == [CAT, ""]
    scores = [output["score"] for output in found[0]["outputs"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert found[1]["outputs"][0]["text"] == ""
    plain = printed("predict", trained(), CAT, *settings).splitlines()
    assert plain == [f"{output['score']:.4f}\t{output['text']}" for output in found[0]["outputs"]]


def test_a_setting_among_texts_is_a_setting_and_behind_dashes_it_is_a_text() -> None:
    beam, dog = "decode.beam=1", "the dog likes the horse ."
    plain = printed("predict", trained(), CAT, dog)
    assert printed("predict", trained(), beam, CAT, "decode.maximum_length=2", dog) != plain
    assert len(printed("predict", trained(), CAT, "decode.n_best=2", dog).splitlines()) == 4
    assert printed("predict", trained(), beam, stdin=CAT.encode()) == printed("predict", trained(), CAT, beam)
    for arguments, texts in (
        ([trained(), CAT, "--", beam, dog], 3),
        (["--json", "--", trained(), beam], 1),
        ([trained(), "a.b=c", "x=y", "decode.=3", "what is decode.beam=3 ?"], 4),
    ):
        result = regard("predict", *arguments)
        assert (result.code, len(result.out.splitlines())) == (0, texts)
        assert result.err.startswith("unknown: ")  # to this model they are words that it has not met


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["predict", CAT, "--set", "decode.beam=3"], ["without --set", "decode.beam=8"]),
        (["chat", "--set", "decode.beam=3"], ["without --set"]),
        (["predict", CAT, "decode.baem=3"], ["did you mean 'decode.beam'?"]),
        (["predict", CAT, "decod.beam=3"], ["'decod'", "decode.beam", "--"]),
        (["chat", "decode.baem=3"], ["did you mean 'decode.beam'?"]),
        (["lens", CAT, "decode.baem=3"], ["did you mean 'decode.beam'?"]),
        (["lens", CAT, "--show", "heads", "decode.baem=3"], ["did you mean 'decode.beam'?"]),
        (["lens", CAT, "--word", "cat", "decode.beam=3"], ["decode.beam=3 is not for --word"]),
    ],
)
def test_settings_that_are_refused_by_name(arguments: list[str], said: list[str]) -> None:
    verb, *rest = arguments
    refused(regard(verb, trained(), *rest), *said)


def test_lens_looks_into_what_the_setting_makes_the_run_write() -> None:
    said = printed("lens", trained(), CAT, "decode.maximum_length=3")
    assert said.splitlines()[0] == printed("predict", trained(), CAT, "decode.maximum_length=3").rstrip("\n")


def test_results_come_before_the_input_ends() -> None:
    command = [sys.executable, "-m", "regard", "predict", str(trained())]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for sentence in (CAT, "the dog sees the cat ."):
            process.stdin.write(f"{sentence}\n".encode())
            process.stdin.flush()
            assert select.select([process.stdout], [], [], 600)[0], "no result although a whole line was given"
            assert process.stdout.readline() == printed("predict", trained(), sentence).encode()
        process.stdin.close()
        assert process.wait(600) == 0


# ------------------------------------------------------------------------------------------------------- lens, explain, doctor


@pytest.mark.parametrize(
    ("ending", "begins"),
    [("png", b"\x89PNG"), ("svg", b"<?xml"), ("html", b"<!doctype html"), ("json", b"{"), ("PNG", b"\x89PNG")],
)
def test_lens_draws(ending: str, begins: bytes, tmp_path: Path) -> None:
    file = tmp_path / f"attention.{ending}"
    said = printed("lens", trained(), CAT, "--out", file).splitlines()
    assert said[0] == printed("predict", trained(), CAT).rstrip("\n")
    assert said[-1] == f"drawn: {file}"
    assert file.read_bytes().lower().startswith(begins.lower())


@pytest.mark.parametrize("part", ["cross", "decoder", "encoder"])
def test_lens_shows_what_a_probe_sees(part: str, tmp_path: Path) -> None:
    printed("lens", trained(), CAT, "--part", part, "--out", tmp_path / "a.json")
    drawn = json.loads((tmp_path / "a.json").read_text())
    translator = package.load(str(trained()))
    with package.probe(translator.model) as seen:
        translator(CAT)
    names = [name for name in seen if (name.endswith(".cross") if part == "cross" else name == f"{part}.0.self")]
    assert drawn["layers"] == names
    torch.testing.assert_close(torch.tensor(drawn["weights"][0]), seen[names[0]].weights()[0], atol=1e-6, rtol=0)


def test_explain_a_recipe_and_a_run() -> None:
    for target in (tiny(), trained()):
        assert "regard/model/heads.py" in printed("explain", target)
    tree = json.loads(printed("explain", trained(), "--json"))
    assert tree["parameters"] == sum(p.numel() for p in package.load(str(trained())).model.parameters())
    assert json.loads(printed("explain", tiny(), "model.layers=2", "--json"))["parameters"] > tree["parameters"]


def test_explain_shows_a_gated_feed_forward_and_rms_norms() -> None:
    plain = printed("explain", tiny())
    assert " gated " not in plain
    assert " rms " not in plain
    changed = printed("explain", tiny(), "model.feedforward_kind=gated", "model.norm=rms").splitlines()
    ours = [line for line in changed if line.split()[:1] in (["norm"], ["feedforward"])]
    assert len(ours) > 4
    assert all((" rms " if line.split()[0] == "norm" else " gated ") in line for line in ours)


def test_doctor() -> None:
    findings = json.loads(printed("doctor", "--json"))
    assert findings["packages"]["torch"] == torch.__version__
    assert findings["python"] == sys.version.split()[0]
    assert torch.__version__ in printed("doctor")


# --------------------------------------------------------------------------------------------------------------------- Python


def test_the_example_of_the_front_page() -> None:
    translator = package.load(str(trained()))
    said = translator(CAT)
    assert isinstance(said, str)
    assert translator([CAT, "", CAT]) == [said, "", said]
    with package.probe(translator.model) as seen:
        assert translator(CAT) == said
    weights = seen["decoder.0.cross"].weights(heads=[0, 1])
    source = len(translator.tokenizers.source.encode(CAT)) + 1
    assert weights.shape[:2] == (1, 2)
    assert weights.shape[3] == source
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))


def test_a_mistake_in_python_is_the_same_sentence(tmp_path: Path) -> None:
    with pytest.raises(package.UserError, match="does not exist"):
        package.load(str(tmp_path / "none"))
    assert regard("predict", tmp_path / "none", "x").err.startswith(f"regard: {tmp_path / 'none'} does not exist")


# -------------------------------------------------------------------------------------------------- settings with every verb

TAKES_NO_RECIPE = {"demo", "recipes", "bench", "doctor"}
WRITES_WEIGHTS_AS_THEY_ARE = {"export"}


@pytest.mark.parametrize("verb", sorted(set(VERBS) - TAKES_NO_RECIPE - WRITES_WEIGHTS_AS_THEY_ARE))
def test_every_verb_that_opens_a_recipe_or_a_run_takes_settings(verb: str) -> None:
    assert "KEY=VALUE" in printed(verb, "--help")


@pytest.mark.parametrize("verb", sorted(set(VERBS) - TAKES_NO_RECIPE - {"import", "export"}))
def test_every_verb_that_opens_a_recipe_or_a_run_takes_a_plugin(verb: str) -> None:
    assert "--plugin FILE" in printed(verb, "--help")


def test_generate_is_predict() -> None:
    assert printed("generate", trained(), CAT) == printed("predict", trained(), CAT)
    assert printed("generate", trained(), CAT, "decode.search=greedy") == printed(
        "predict", trained(), CAT, "decode.search=greedy"
    )


def test_studio_takes_settings(tmp_path: Path) -> None:
    refused(
        regard("studio", trained(), "decode.baem=8", "--no-browser"),
        "decode.baem is not a setting",
        "did you mean 'decode.beam'?",
    )

"""Settings that cannot be: refused by key before anything is read, trained or written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.runs.recipe import load_recipe
from tests.command import Result, contents, copy_of_run, refused, regard, tiny, trained, write_tiny

WRONG = [
    # no such thing
    ("train.step=3", "train.step is not a setting", "did you mean 'train.steps'?"),
    ("trian.steps=3", "no section 'trian'", "did you mean 'train'?"),
    ("steps=3", "'steps=3' is not a setting", "section.key=value"),
    ("train.steps", "'train.steps' is not a setting", "section.key=value"),
    ("train.=3", "'train.=3' is not a setting"),
    ("=", "'=' is not a setting"),
    ("decode.beam.size=3", "decode.beam.size is not a setting"),
    # not of that kind
    ("train.steps=many", "train.steps=many must be a whole number"),
    ("train.steps=1.5", "train.steps=1.5 must be a whole number"),
    ("train.steps=", "train.steps= must be a whole number"),
    ("model.dropout=some", "model.dropout=some must be a number"),
    ("train.compile=yes", "train.compile=yes must be true or false"),
    ("text.tokenizer=bpee", "text.tokenizer=bpee", "did you mean 'bpe'?"),
    ("model.position=learnt", "model.position=learnt", "did you mean 'learned'?"),
    ("train.precision=fp8", "train.precision=fp8", "bf16"),
    ("model.family=bert", "model.family=bert", "transformer"),
    ("model.mixer=hard", "model.mixer='hard'", "softmax"),
    ("model.visibility=widow(3)", "'widow(3)'", "did you mean 'window'?"),
    ("model.visibility=window", "'window'", "window(8)"),
    ("model.visibility=((", "cannot be read"),
    ("task.name=translator", "task.name=translator", "did you mean 'translation'?"),
    ("decode.search=bean", "decode.search=bean", "did you mean 'beam'?"),
    # not of that size
    ("train.steps=0", "train.steps=0 must be at least 1"),
    ("train.steps=-5", "train.steps=-5 must be at least 1"),
    ("train.steps=99999999999999999999", "train.steps", "below 2**63"),
    ("train.seed=-99999999999999999999", "train.seed", "below 2**63"),
    ("train.tokens_per_batch=0", "train.tokens_per_batch=0 must be at least 1"),
    ("train.learning_rate=0", "train.learning_rate=0.0 must be a number above 0"),
    ("train.learning_rate=nan", "train.learning_rate=nan"),
    ("train.learning_rate=inf", "train.learning_rate=inf"),
    ("train.warmup=-1", "train.warmup=-1.0 must be 0 or more"),
    ("train.beta2=1", "train.beta2=1.0", "less than 1"),
    ("train.keep=0", "train.keep=0 must be at least 1"),
    ("model.width=17", "model.width=17 does not divide by model.heads=2", "16"),
    ("model.heads=0", "model.heads=0 must be at least 1"),
    ("model.layers=0", "model.layers=0 must be at least 1"),
    ("model.dropout=1.5", "model.dropout=1.5", "less than 1"),
    ("model.maximum_length=0", "model.maximum_length=0 must be at least 1"),
    ("objective.smoothing=2", "objective.smoothing=2.0", "less than 1"),
    ("text.size=3", "text.size=3", "5 or more"),
    ("text.minimum_count=0", "text.minimum_count=0", "1 or more"),
    ("data.maximum_tokens=0", "data.maximum_tokens=0 must be at least 1"),
    ("data.limit=-1", "data.limit=-1", "0 (all) or more"),
    ("decode.beam=0", "decode.beam is 0", "1 (greedy) to 1,000"),
    ("decode.n_best=3", "decode.n_best is 3", "decode.beam=2", "widen the beam"),
    ("decode.length_penalty=-1", "decode.length_penalty is -1.0"),
    ("decode.batch_tokens=0", "decode.batch_tokens is 0"),
    # not together
    ("text.joint=false", "model.tie=all", "text.joint=true", "model.tie=output"),
    ("model.join=concat", "model.join=concat needs model.position_width"),
    ("train.weight_decay=0.1", "train.weight_decay=0.1 needs train.optimizer=adamw"),
    ("train.average=9", "train.average=9", "train.keep=9"),
    ("decode.minimum_length=5 decode.maximum_length=5", "decode.minimum_length is 5", "decode.maximum_length, 5"),
    ("decode.search=greedy decode.n_best=2", "decode.n_best is 2", "decode.search=beam"),
    ("train.schedule=cosine train.warmup=20", "train.warmup=20 leaves nothing of train.steps=20", "train.warmup below 20"),
]
ONCE_READ = [
    ("text.size=6 text.tokenizer=bpe", "text.size=6 is too small", "Set text.size="),
    ("text.tokenizer=byte", "260 pieces", "text.size is 100", "text.size=0"),
    ("text.minimum_count=999", "text.minimum_count=999", "Set it lower"),
    ("data.maximum_tokens=3", "all 40 training pairs", "data.maximum_tokens=3", "raise it"),
    ("model.width=100000000", "parameters", "GiB", "lower model.width"),
    ("model.layers=1000000000", "2,000,000,000 layers", "4,096 are the most", "lower model.layers"),
]


def refused_at_once(result: Result, *told: str) -> None:
    assert refused(result, *told) == result.err, "nothing but the sentence is said"


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case[0])
def test_a_wrong_setting(case: tuple[str, ...], tmp_path: Path) -> None:
    given, *told = case
    refused_at_once(regard("train", tiny(), *given.split(), "--out", tmp_path / "o"), *told)
    refused_at_once(regard("train", tiny(), *given.split(), "--dry-run"), *told)
    refused_at_once(regard("explain", tiny(), *given.split()), *told)
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("case", ONCE_READ, ids=lambda case: case[0])
def test_a_setting_that_the_data_shows_to_be_wrong(case: tuple[str, ...], tmp_path: Path) -> None:
    given, *told = case
    refused(regard("train", tiny(), *given.split(), "--out", tmp_path / "o"), *told)
    refused(regard("train", tiny(), *given.split(), "--dry-run"), *told)
    assert not (tmp_path / "o").exists()


@settings(max_examples=60)
@given(st.text(alphabet="abcdemnoprst.=_-0159 é'\"[]", max_size=25))
def test_whatever_is_typed_as_a_setting_is_taken_or_told(typed: str) -> None:
    result = regard("explain", tiny(), "--", typed)
    if result.code:
        refused(result)


# ------------------------------------------------------------------------------------------------------ learned positions end


def learned(*arguments: object) -> list[object]:
    return ["train", *arguments, "model.position=learned", "train.steps=4", "train.validate_every=2"]


def test_training_pairs_beyond_learned_positions_are_left_out(tmp_path: Path) -> None:
    recipe = write_tiny(tmp_path)
    for name, words in (("train.en", "the big old cat sees the very small dog ."), ("train.fr", "le chat voit le chien .")):
        with (tmp_path / name).open("a") as file:
            file.write(f"{words}\n")
    result = regard(*learned(recipe), "model.maximum_length=8", "--out", tmp_path / "o")
    assert result.code == 0, result.err
    assert "1 of 41 pairs have a side longer than model.maximum_length=8 and are left out" in result.err


@pytest.mark.parametrize("split", ["valid", "test"])
def test_other_pairs_beyond_learned_positions_are_refused(split: str, tmp_path: Path) -> None:
    recipe = write_tiny(tmp_path)
    with (tmp_path / f"{split}.tsv").open("a") as file:
        file.write("the cat sees the dog the cat sees the dog .\tle chat .\n")
    refused(
        regard(*learned(recipe), "model.maximum_length=9", "--out", tmp_path / "o"),
        f"data.{split}, pair 5",
        "13 tokens",
        "model.maximum_length=9",
        "set model.maximum_length=13 or more",
    )
    assert not (tmp_path / "o").exists()
    assert regard(*learned(recipe), "model.maximum_length=13", "--out", tmp_path / "o").code == 0


def test_a_text_beyond_learned_positions(tmp_path: Path) -> None:
    run = tmp_path / "o"
    assert regard(*learned(tiny()), "model.maximum_length=8", "--out", run).code == 0
    fits = "the cat sees the dog ."
    for verb, rest in (("predict", []), ("lens", ["--part", "encoder"])):
        assert regard(verb, run, fits, *rest).code == 0  # and what is written ends where positions end
        told = refused(regard(verb, run, fits * 3, *rest), "tokens long", "learned 8 positions", "model.maximum_length=")
        assert "the cat sees the dog .the cat sees the d..." in told


# ---------------------------------------------------------------------------------------------------- settings of a trained run


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("decode.beam=0", ("decode.beam is 0",)),
        ("decode.bem=3", ("did you mean 'decode.beam'?",)),
        ("decode.n_best=9", ("decode.n_best is 9",)),
        ("model.width=32", ("model.width=32 (was 16)", "trained run", "--out ANOTHER_FOLDER")),
        ("text.lowercase=true", ("text.lowercase=true (was false)",)),
        ("train.steps=5", ("train.steps=5 (was 20)",)),
    ],
)
def test_settings_for_a_trained_run(given: str, told: tuple[str, ...]) -> None:
    refused_at_once(regard("predict", trained(), "the cat", given), *told)
    refused_at_once(regard("evaluate", trained(), given), *told)


def test_a_setting_without_its_section() -> None:
    refused_at_once(regard("evaluate", trained(), "beam=3"), "section.key=value")


def test_a_folder_that_was_begun_with_other_settings(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    before = contents(run)
    result = regard("train", tiny(), "model.width=32", "train.seed=5", "decode.beam=3", "--out", run)
    refused_at_once(result, str(run), "model.width=32 (was 16); train.seed=5 (was 1).", "--out ANOTHER_FOLDER")
    assert "beam" not in result.err  # may change
    assert contents(run) == before


def test_a_run_that_burst_before_its_first_checkpoint_can_be_mended_in_place(tmp_path: Path) -> None:
    out = tmp_path / "o"
    broke = regard("train", tiny(), "train.learning_rate=1e30", "--out", out)
    refused(broke, "the loss or its gradient is not a number", "Lower train.learning_rate")
    assert regard("train", tiny(), "train.learning_rate=1e-3", "text.tokenizer=character", "--out", out).code == 0
    assert load_recipe(str(out / "recipe.toml")).train.learning_rate == 1e-3
    assert regard("predict", out, "the cat").code == 0

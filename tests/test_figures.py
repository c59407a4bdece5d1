"""Figures in README and docs/results.md come from benchmarks/results, and say what is there."""

import json
from pathlib import Path
from statistics import mean

import pytest

from regard.training.logging import clock

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
RESULTS = (ROOT / "docs" / "results.md").read_text("utf-8")


def result(name: str) -> dict:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))


def test_the_demo():
    demo = result("demo.cpu")
    seconds, bleu, chrf = round(demo["training_seconds"]), round(demo["bleu"], 1), round(demo["chrf"], 1)
    right, total = demo["pronouns_right"], demo["pronouns"]
    assert f"{demo['steps']} steps, {seconds} s on 2 CPU cores | {bleu} BLEU, {chrf} chrF, {right} of {total} pronouns" in RESULTS
    assert f"ends with {bleu} BLEU, {chrf} chrF and {right} of {total} pronouns right" in " ".join(README.split())


def test_multi30k():
    found = result("multi30k.cuda")
    again = found["again"]["the same command, a second training"]
    lower, cased = ([training[name] for training in (found, again)] for name in ("bleu_lowercase", "bleu"))
    means = [f"{mean(scores):.1f} ± {max(scores) - mean(scores):.1f}" for scores in (lower, cased)]
    told = f"{means[0]} BLEU lower-cased, {means[1]} cased: two trainings by the same command, {lower[0]} and {lower[1]:.2f}"
    assert f"{told} ({cased[0]} and {cased[1]:.2f} cased)" in RESULTS
    recipe = (ROOT / "src/regard/runs/recipes/translate-small.toml").read_text("utf-8")
    for score in (*lower, *cased):
        assert f"{score:.2f}" in recipe
    assert f"length penalty {found['length_penalty']}" in RESULTS
    assert f"one of {found['trainings_tried']} trainings tried" in RESULTS


FEATURES = "Performer's attention, causal, 16,384 tokens, forward + backward"
WHOLE = "BigBird, 4 layers x 768, 4,096 tokens, forward + backward"
BEAM, GREEDY, TRAINING = "beam 4, Transformer-base", "GPT-2 124M, greedy, batch 1", "training a small translator"


@pytest.mark.parametrize(
    ("what", "peer", "name", "case", "ratio"),
    [
        (f"{BEAM}, batch 1", "Hugging Face transformers", "decode_beam", "batch 1", "regard / hugging face"),
        (f"{BEAM}, batch 16", "Hugging Face transformers", "decode_beam", "batch 16", "regard / hugging face"),
        (f"{BEAM}, batch 1", "CTranslate2", "decode_beam", "batch 1", "regard / ctranslate2"),
        (f"{BEAM}, batch 16", "CTranslate2", "decode_beam", "batch 16", "regard / ctranslate2"),
        ("the same with int8 weights, batch 1", "CTranslate2, int8", "decode_beam", "batch 1", "regard int8 / ctranslate2 int8"),
        (
            "the same with int8 weights, batch 16",
            "CTranslate2, int8",
            "decode_beam",
            "batch 16",
            "regard int8 / ctranslate2 int8",
        ),
        (GREEDY, "Hugging Face transformers", "decode_greedy", "batch 1", "regard / hugging face"),
        (f"{GREEDY}, int8 weights", "Hugging Face transformers", "decode_greedy", "batch 1", "regard int8 / hugging face"),
        (
            f"{TRAINING}, lengths 5 to 45",
            "Hugging Face transformers",
            "train_translate",
            "small, 5 to 45 tokens",
            "regard / marian",
        ),
        (
            f"{TRAINING}, lengths 5 to 45",
            "torch.nn.Transformer",
            "train_translate",
            "small, 5 to 45 tokens",
            "regard / nn.Transformer",
        ),
        (
            f"{TRAINING}, all lengths 25",
            "Hugging Face transformers",
            "train_translate",
            "small, 25 + 25 tokens",
            "regard / marian",
        ),
    ],
)
def test_speed(what, peer, name, case, ratio):
    (row,) = (row for row in result(f"{name}.cpu")["rows"] if row["case"] == case)
    assert f"| {what} | {peer} | {row['ratios'][ratio]:.2f}× |" in RESULTS


@pytest.mark.parametrize(
    ("what", "peer", "name", "case", "ratio"),
    [
        (
            "training GPT-2 124M, 1,024 tokens",
            "Hugging Face, compiled",
            "train_lm",
            "64 texts of 1,024 tokens",
            "regard / hugging face, compiled",
        ),
        (
            "training BERT-base on masked words, lengths 32 to 512",
            "Hugging Face, compiled",
            "train_mlm",
            "lengths 32 to 512",
            "regard / hugging face, compiled",
        ),
        (
            "training Transformer-base, all lengths 64",
            "Hugging Face, compiled",
            "train_translate",
            "base, 64 + 64 tokens",
            "regard / marian, compiled",
        ),
        (
            "training Transformer-base, lengths 8 to 64",
            "Hugging Face, compiled",
            "train_translate",
            "base, 8 to 64 tokens",
            "regard / marian, compiled",
        ),
        ("encoding with BERT-base, lengths 32 to 512", "Hugging Face", "encode", "lengths 32 to 512", "regard / hugging face"),
        (GREEDY, "Hugging Face, static cache", "decode_greedy", "batch 1", "regard / hugging face, static cache"),
        (
            "GPT-2 124M, greedy, batch 32",
            "Hugging Face, static cache",
            "decode_greedy",
            "batch 32",
            "regard / hugging face, static cache",
        ),
        (f"{BEAM}, batch 1", "Hugging Face", "decode_beam", "batch 1", "regard / hugging face"),
        (f"{BEAM}, batch 32", "Hugging Face", "decode_beam", "batch 32", "regard / hugging face"),
        ("fine-tuning MiniLM-L6 on SST-2", "transformers' Trainer", "finetune", "after warm-up", "regard / Trainer"),
        (
            "fine-tuning MiniLM-L6 on SST-2",
            "Trainer at its best, compiled",
            "finetune",
            "after warm-up",
            "regard / Trainer, best, compiled",
        ),
        (FEATURES, "the plain form", "favor", "causal, 16,384, forward + backward", "regard / plain form"),
        (FEATURES, "softmax by flash", "favor", "causal, 16,384, forward + backward", "regard / flash"),
        *(
            (
                f"attention by BigBird's pattern, {tokens} tokens, forward + backward",
                "all pairs, by flash",
                "sparse",
                f"{tokens}, forward + backward",
                "bigbird / dense",
            )
            for tokens in ("4,096", "16,384", "65,536")
        ),
        (WHOLE, "Hugging Face transformers", "sparse", WHOLE, "regard / transformers"),
    ],
)
def test_speed_on_a_gpu(what, peer, name, case, ratio):
    (row,) = (row for row in result(f"{name}.cuda")["rows"] if row["case"] == case)
    again = "".join(f", in another race {other:.2f}×" for other in row.get("again", {}).get(ratio, []))
    assert f"| {what} | {peer} | {row['ratios'][ratio]:.2f}×{again} |" in RESULTS.partition("On one H200")[2]


def test_language_models():
    recipes = result("language.cpu")["recipes"]
    gpt, letters = recipes["gpt"], recipes["gpt-characters-small"]
    assert (
        f"{gpt['steps']} steps, {clock(gpt['seconds'])} on 2 CPU cores | {gpt['test']['bits_per_byte']:.3f} bits per byte"
        in RESULTS
    )
    assert f"{letters['steps']:,} steps, {clock(letters['seconds'])} on 2 CPU cores" in RESULTS
    assert f"validation loss {letters['validation_loss']:.3f}" in RESULTS


def test_language_models_on_a_gpu():
    recipes = result("language.cuda")["recipes"]
    letters, words = recipes["gpt-characters"], recipes["gpt-words"]
    assert (
        f"{letters['steps']:,} steps, {clock(letters['seconds'])} on an H200 | validation loss {letters['validation_loss']:.3f}"
        in RESULTS
    )
    assert (
        f"{words['steps']:,} steps, {clock(words['seconds'])} on an H200 | test perplexity {words['test']['perplexity']:.1f}"
        in RESULTS
    )


def test_the_arena():
    found = result("lra.cuda")["data"]
    full, bigbird = (100 * found["listops"][name][0]["accuracy"] for name in ("full", "bigbird"))
    assert f"| {full:.2f}%, one seed (published: 36.4%); with BigBird's pattern {bigbird:.1f}% (36.1%) |" in RESULTS
    (eased,) = found["pathfinder"]["eased"]
    assert f"{eased['steps']:,} steps after 13,750 easier ones, 15 min" in RESULTS
    assert f"| {100 * eased['accuracy']:.2f}%, one seed (published: 71.4%" in RESULTS


@pytest.mark.parametrize(
    ("name", "exam", "recipe", "score"),
    [
        ("understand", "sst2", "finetune-classify", "{:.1f}% ± {:.1f}"),
        ("understand", "mrpc", "finetune-pair", "F1 {:.1f} ± {:.1f}"),
        ("hierarchical", "imdb", "classify-han", "{:.1f}% ± {:.1f}"),
    ],
)
def test_trained_on_a_gpu(name, exam, recipe, score):
    found = result(f"{name}.cuda")["data"][exam]
    told = score.format(100 * found["mean"], 100 * found["deviation"])
    assert any(f"`{recipe}`" in line and f"| {told}, three seeds" in line for line in RESULTS.splitlines())


def test_long_inputs():
    """Its page rounds what was recorded."""
    page = (ROOT / "docs" / "guides" / "long-inputs.md").read_text("utf-8")

    def growth(name: str, table: int, system: str) -> str:
        (row,) = [row for row in result(name)["tables"][0]["rows"] if row[0] == system]
        return row[table]

    def ratio(name: str, case: str, pair: str) -> float:
        (row,) = [row for row in result(name)["rows"] if row["case"] == f"{case}, forward + backward"]
        return row["ratios"][pair]

    times = [ratio("sparse.cuda", f"{n:,}", "bigbird / dense") for n in (4096, 16_384, 65_536)]
    told = f"{times[0]:.1f}, {times[1]:.1f} and {times[2]:.0f} times as fast at 4,096, 16,384 and 65,536"
    assert f"| {growth('sparse.cuda', -1, 'bigbird')} | {told} |" in page
    at_once = ratio("sparse.cpu", "4,096", "bigbird / dense")
    assert f"| {growth('sparse.cpu', -1, 'bigbird')} | {at_once:.1f} times as fast at 4,096;" in page
    flash, sdpa = ratio("favor.cuda", "causal, 16,384", "regard / flash"), ratio("favor.cpu", "causal, 4,096", "regard / sdpa")
    assert f"| {growth('favor.cuda', 1, 'favor, causal')} | {flash:.1f} times as fast at 16,384, slower up to 8,192 |" in page
    assert ratio("favor.cuda", "8,192", "favor, causal / softmax, causal (flash)") < 1
    assert f"| {growth('favor.cpu', 1, 'favor, causal')} | {sdpa:.1f} times as fast at 4,096 |" in page
    peak, squares = (row[1].split()[0] for row in result("sparse.cuda")["tables"][1]["rows"])
    assert f"in {float(peak):.1f} GB; the weights of all its pairs would be {squares} GB" in page
    for task, variants in result("lra_small.cpu")["data"].items():
        scores = [100 * mean(run["accuracy"] for run in runs) for runs in variants.values()]
        one_answer = 100 * variants["full"][0]["one_answer"]
        assert all(len(runs) == 3 for runs in variants.values())
        assert f"| `lra-{task}` | {' | '.join(f'{score:.1f}' for score in scores)} | {one_answer:.1f} |" in page


LONG = "4,096 tokens, forward + backward"


@pytest.mark.parametrize(
    ("what", "peer", "name", "case", "ratio"),
    [
        (
            f"attention by BigBird's pattern, {LONG}",
            "all pairs, by SDPA",
            "sparse",
            "4,096, forward + backward",
            "bigbird / dense",
        ),
        (
            f"BigBird, 2 layers, {LONG}",
            "Hugging Face transformers",
            "sparse",
            "BigBird, 2 layers x 256, 4,096 tokens, forward + backward",
            "regard / transformers",
        ),
        (
            f"Performer's attention, causal, {LONG}",
            "performer-pytorch",
            "favor",
            "causal, 4,096, forward + backward",
            "regard / performer-pytorch",
        ),
        ("classifying 872 sentences, MiniLM-L6", "Hugging Face pipeline", "classify", "872 texts", "regard / pipeline"),
        ("classifying 872 sentences, MiniLM-L6", "ONNX Runtime", "classify", "872 texts", "regard / ONNX Runtime"),
        ("word vectors by skip-gram", "gensim", "words", "skipgram", "regard / gensim"),
        ("word vectors by CBOW", "gensim", "words", "cbow", "regard / gensim"),
        (
            "training an LSTM translator with input feeding, lengths 5 to 45",
            "JoeyNMT",
            "train_rnn",
            "LSTM, bilinear, input feeding, 5 to 45 tokens",
            "regard / joeynmt",
        ),
        (
            "training a GRU translator with input feeding, all lengths 25",
            "JoeyNMT",
            "train_rnn",
            "GRU, additive, input feeding, 25 + 25 tokens",
            "regard / joeynmt",
        ),
    ],
)
def test_speed_of_the_rest(what, peer, name, case, ratio):
    test_speed(what, peer, name, case, ratio)


def test_heads_that_matter_and_that_can_go():
    page = (ROOT / "docs" / "guides" / "heads.md").read_text("utf-8")
    pronoun, pruned = result("pronoun.cpu"), result("prune_curve.cuda")
    assert f"Without these three, {pronoun['without_them']['pronouns']:.1%} of the pronouns are wrong" in page
    assert f"drawn {pronoun['others']['draws']} times, {pronoun['others']['pronouns']:.1%} are" in page
    best = pruned["ways"]["importance"]
    assert f"Of the {pruned['heads']} heads" in page
    assert f"{pruned['whole']['test']:.1f} BLEU on test" in page
    assert f"{pruned['heads'] - best['fewest']} cost less than 1 BLEU" in page
    assert f"{best['fewest']} heads have {best['fewest_valid']:.1f} there" in page
    assert f"{best['fewest_test']:.1f} on test" in page


def test_the_bottleneck():
    found = result("bottleneck.cuda")
    page = (ROOT / "docs" / "guides" / "before-transformers.md").read_text("utf-8")
    additive, one = (found["models"][name]["bleu_lowercase"] for name in ("additive", "one vector"))
    assert f"{additive:.1f} BLEU with the additive score, {one:.1f} through one vector" in page
    first, last = (
        [group["bleu"][name] for name in ("additive", "one vector")] for group in found["groups"][:: len(found["groups"]) - 1]
    )
    assert f"from {first[0] - first[1]:.0f} BLEU for the shortest to {last[0] - last[1]:.0f} for the longest" in page


def test_captions_of_drawn_scenes():
    rows = result("captions.cpu")["tables"][0]["rows"]
    lstm, transformer = ([figure.partition(" ")[0] for figure in row[1:]] for row in rows)
    assert f"{lstm[0]}% of captions exactly right; {lstm[1]}% of colours and shapes looked up on what they name" in RESULTS
    assert f"(by chance {lstm[2]}%); by a Transformer {transformer[0]}% and {transformer[1]}%" in RESULTS


HEADLINES = {
    "41.9 ± 0.4 BLEU, lower-cased": "41.9 ± 0.4 BLEU lower-cased",
    "| 1.464 | nanoGPT: 1.470 |": "validation loss 1.464 (nanoGPT: 1.470)",
    "| 89.1% ± 0.9 | transformers' own training loop: 88.8% |": "89.1% ± 0.9, three seeds; transformers' own training loop 88.8%",
    "| 1.73× as fast | Hugging Face transformers |": "| beam 4, Transformer-base, batch 16 | Hugging Face transformers | 1.73× |",
    "| 7.06× as fast | Hugging Face, static cache |": "| GPT-2 124M, greedy, batch 1 | Hugging Face, static cache | 7.06× |",
}


@pytest.mark.parametrize(("headline", "figure"), HEADLINES.items())
def test_headlines_of_the_readme_are_results(headline: str, figure: str) -> None:
    """Each is in docs/results.md, whose figures the tests above compare with what was recorded."""
    assert headline in README
    assert figure in RESULTS


def test_the_readme_is_short() -> None:
    assert len(README.encode()) <= 8_000
    assert README.count("× as fast") + README.count("±") + README.count("nanoGPT") >= 5

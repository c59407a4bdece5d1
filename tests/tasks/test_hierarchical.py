"""`classify` with a hierarchy: documents as people have them, trained, asked, scored, looked at, and refused in one sentence."""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import regard as package
from regard.runs.recipe import load_recipe
from regard.tasks.classification.inspect import document_of
from regard.tasks.registry import open_run
from tests.command import refused, regard
from tests.tasks.tiny_labels import train_as

THINGS, SEEN = ("cat", "dog", "bird", "horse"), ("old", "small", "brown")
DOCUMENTS = [  # judged by the one sentence that is not about the weather
    ([f"It rained on the {look} road.", f"The {thing} was {'not ' * bad}nice.", "Dr. Lee came."], "bad" if bad else "good")
    for thing, look, bad in product(THINGS, SEEN, (0, 1))
]
TINY = ["data.test=", "text.size=80", "model.width=24", "model.dropout=0", "train.steps=30", "train.warmup=3"]
TINY += ["train.tokens_per_batch=512", "train.learning_rate=2e-2", "train.validate_every=30", "train.checkpoint_every=30"]
_kept = TemporaryDirectory(prefix="regard-tests-")


def listed(path: Path) -> Path:
    path.write_text("".join(json.dumps({"sentences": d, "label": label}) + "\n" for d, label in DOCUMENTS), "utf-8")
    return path


def plain(path: Path) -> Path:
    path.write_text("".join(f"{' '.join(d)}\t{label}\n" for d, label in DOCUMENTS), "utf-8")
    return path


@cache
def trained(encoder: str = "gru") -> Path:
    folder = Path(_kept.name, encoder)
    data = listed(Path(_kept.name, f"{encoder}.jsonl"))
    given = [f"data.train={data}", f"data.valid={data}", *TINY, f"model.encoder={encoder}"]
    train_as(load_recipe("classify-han", given), folder)
    return folder


@pytest.mark.parametrize("encoder", ["gru", "transformer"])
def test_what_was_learned_is_known_of_texts_and_of_lists(encoder: str, tmp_path: Path) -> None:
    run = trained(encoder)
    for data in (listed(tmp_path / "lists.jsonl"), plain(tmp_path / "texts.tsv")):
        found = regard("evaluate", run, f"data.test={data}", "--json")
        assert json.loads(found.out)["accuracy"] == 1.0
    answers = package.load(run)
    assert answers(["The cat was nice. It rained on the old road.", "The cat was not nice."]) == ["good", "bad"]
    assert regard("predict", run, "It rained on the brown road. The bird was not nice. Dr. Lee came.").out.startswith("bad\t")


def test_lens_shows_words_and_sentences(tmp_path: Path) -> None:
    text = 'It rained on the old road. The cat was not nice! "Dr. Lee" came...'
    found = regard("lens", trained(), text, "--out", tmp_path / "looked.json")
    assert found.code == 0
    assert "It rained on the old road." in found.out
    assert '"Dr. Lee" came...' in found.out
    looked = json.loads((tmp_path / "looked.json").read_text())
    assert looked["told"].startswith("bad (probability 0.")
    assert sum(sentence["weight"] for sentence in looked["sentences"]) == pytest.approx(1.0, abs=1e-4)
    for sentence in looked["sentences"]:
        assert sum(sentence["weights"]) == pytest.approx(1.0, abs=1e-4)
    assert [len(sentence["words"]) for sentence in looked["sentences"]] == [7, 6, 9]


def test_what_is_cut_off_has_no_weight(tmp_path: Path) -> None:
    answers = open_run(str(trained()), None)
    short = answers.reader.__class__(answers.reader.tokenizer, answers.reader.marks, cut=10, room=None)
    answers = type(answers)(answers.model, short, answers.labels, answers.decode)
    found = document_of(answers, "The cat was nice. It rained on the old road. Dr. Lee came.")
    assert "10 tokens were read" in found.note
    weights = [sentence.weight for sentence in found.sentences]
    assert sum(weights[:2]) == pytest.approx(1.0, abs=1e-4)
    assert weights[2] == 0.0
    assert found.sentences[1].words[-1].weight == 0.0


def test_numbers_are_looked_at_too(tmp_path: Path) -> None:
    data = tmp_path / "rated.tsv"
    data.write_text("".join(f"{' '.join(d)}\t{n % 2 + 1}.5\n" for n, (d, _) in enumerate(DOCUMENTS)))
    given = [f"data.train={data}", f"data.valid={data}", *TINY, "train.steps=5", "objective.name=regression"]
    train_as(load_recipe("classify-han", given), tmp_path / "run")
    found = regard("lens", tmp_path / "run", "The cat was nice. It rained.")
    assert found.code == 0
    said = float(regard("predict", tmp_path / "run", "The cat was nice. It rained.").out)
    assert found.out.startswith(f"rated {said:.2f}")


def test_other_ways_of_looking() -> None:
    text = "It rained on the old road. The cat was not nice."
    assert "words.query" in regard("lens", trained(), text, "--show", "ablation").out
    assert "nice" in regard("lens", trained(), text, "--show", "integrated").out
    for show in ("weights", "heads", "rollout"):
        refused(regard("lens", trained(), text, "--show", show), "one sentence after the other", "regard lens RUN TEXT")
    refused(regard("lens", trained(), text, "--part", "cross"), "--part cross is for models that write")


def test_explain_and_card() -> None:
    told = regard("explain", trained()).out
    assert "words.query" in told
    assert "a learned query at the words of each sentence" in told
    assert "layers of gru cells" in (trained() / "README.md").read_text()
    assert json.loads(regard("explain", trained("transformer"), "--json").out)["figures"]["heads"] == 4


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"sentences": ["a", 3], "label": "x"}', ("line 1", "the list in column 'sentences' holds int")),
        ('{"sentences": [], "label": "x"}', ("line 1", "column 'sentences' is empty")),
        ('{"sentences": "a", "label": 3.5, "text": ["a"]}', ("line 1", "column 'text' holds list")),
        ('{"sentences": ["a\\ud800"], "label": "x"}', ("line 1", "half a character")),
    ],
)
def test_lists_that_cannot_be_read_are_refused(line: str, told: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_text(f'{line}\n{{"sentences": ["b"], "label": "y"}}\n')
    refused(regard("train", "classify-han", f"data.train={tmp_path / 'odd.jsonl'}", "--out", tmp_path / "run"), *told)
    assert not (tmp_path / "run").exists()


def test_settings_that_cannot_be_are_refused(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a b\tc d\tx\nc d\ta b\ty\n")
    given = ["train", "classify-han", f"data.train={pairs}", f"data.valid={pairs}", "--out", tmp_path / "run"]
    refused(regard(*given), "reads one text, sentence by sentence, but here are two")
    refused(regard(*given, "train.compile=true"), "model.family=han is not")
    refused(regard(*given, "model.encoder=rnn"), "model.encoder")
    refused(regard("prune", trained(), tmp_path / "pruned", "--keep", "1"), "whose attention has one head")

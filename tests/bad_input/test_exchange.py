"""What people may get wrong when they open, import and export checkpoints or ask for vectors: one sentence each, nothing left."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.interop.huggingface.sentence_transformers import written_sentences
from regard.model.heads import VectorsConfig
from regard.training.checkpoint import Store
from tests.command import contents, copy_of_run, refused, regard
from tests.command import trained as translator
from tests.families.public_folder import change_config, change_tensors, export, small_gpt
from tests.tasks.adopted_folder import folder_of
from tests.tasks.tiny_labels import trained

Spoil = Callable[[Path], object]


@pytest.fixture
def body(tmp_path: Path) -> Path:
    """A folder of BertModel, to be spoiled."""
    return Path(shutil.copytree(folder_of("BertModel"), tmp_path / "body"))


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that gives vectors: to be read, not changed."""
    run = tmp_path_factory.mktemp("vectors") / "run"
    assert regard("import", folder_of("BertModel"), run).code == 0
    return run


def rewrite(file: str, change: Callable[[Any], Any]) -> Spoil:
    def spoil(folder: Path) -> None:
        path = folder / file
        path.write_text(json.dumps(change(json.loads(path.read_text()))))

    return spoil


def as_sentences(folder: Path, **changes: Any) -> None:
    for name, text in written_sentences(VectorsConfig(), 24, 50).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    for name, content in changes.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


def cut_short(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:5000])


def larger_vocabulary(folder: Path) -> None:
    path = folder / "vocab.txt"
    path.write_text(path.read_text() + "".join(f"piece{n}\n" for n in range(600)))


SPOILED: list[tuple[Spoil, str]] = [
    (lambda folder: (folder / "config.json").unlink(), "There is no"),
    (lambda folder: (folder / "config.json").write_text("{"), "cannot be read as JSON"),
    (lambda folder: (folder / "config.json").write_bytes(b'{"model_type": "\xff"}'), "is not UTF-8 text"),
    (lambda folder: change_config(folder, model_type="reformer"), "model_type='reformer'"),
    (lambda folder: change_config(folder, architectures=["BertForMultipleChoice"]), "'BertForMultipleChoice'"),
    (lambda folder: change_config(folder, hidden_size=25), "config.json"),
    (lambda folder: change_config(folder, position_embedding_type="relative_key"), "position_embedding_type"),
    (cut_short, "damaged or cut short"),
    (lambda folder: change_tensors(folder, lambda found: found.pop("encoder.layer.0.output.dense.bias")), "has no tensor"),
    (lambda folder: (folder / "vocab.txt").unlink(), "holds no tokenizer that can be read"),
    (lambda folder: (folder / "vocab.txt").write_text("the\nstreet\n"), "has no piece [UNK]"),
    (lambda folder: (folder / "vocab.txt").write_text("[UNK]\nthe\n"), "no piece that could start or end a text"),
    (larger_vocabulary, "they do not belong together"),
    (lambda folder: as_sentences(folder, modules=[{"type": "models.Transformer"}, {"type": "models.Dense"}]), "a step Dense"),
    (lambda folder: as_sentences(folder, sentence_bert_config={"do_lower_case": True}), "do_lower_case"),
    (lambda folder: as_sentences(folder, config_sentence_transformers={"default_prompt_name": "q"}), "default_prompt_name"),
]


@pytest.mark.parametrize(("spoil", "told"), SPOILED, ids=[told for _, told in SPOILED])
def test_folders_that_cannot_be_opened(spoil: Spoil, told: str, body: Path, tmp_path: Path) -> None:
    spoil(body)
    refused(regard("import", body, tmp_path / "run"), told)
    assert not (tmp_path / "run").exists()


def test_weights_that_would_have_to_be_unpickled(body: Path, tmp_path: Path) -> None:
    """The sentence ends with what to type, for the class that the folder is of."""
    (body / "model.safetensors").rename(body / "pytorch_model.bin")
    result = regard("import", body, tmp_path / "run")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "import BertModel as Model; Model.from_pretrained(" in result.err


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["task.name=classification"], "was not trained for task classification: it has no head for it"),
        (["task.name=tagging"], "was not trained for task tagging"),
        (["task.name=question_answering"], "open it for task.name=embedding"),
        (["task.name=masked_lm"], "was not trained for task masked_lm"),
        (["task.name=embeding"], "did you mean 'embedding'?"),
        (["task.name=translation"], "task.name=translation needs a transformer or bart or marian or recurrent or t5"),
        (["task.name=language_model"], "task.name=language_model needs a gpt"),
        (["task.name"], "is not a setting"),
        (["objective.pooling=max"], "objective.pooling=max is not a choice"),
        (["objective.normalised=perhaps"], "must be true or false"),
        (["objective.poolin=mean"], "did you mean 'objective.pooling'?"),
        (["data.maximum_tokens=101"], "data.maximum_tokens=101 is more than model.maximum_length=100"),
        (["data.maximum_tokens=2"], "at least 3"),
        (["data.train=a.txt"], "data.train is not a setting"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_settings_that_do_not_suit_a_body(settings: list[str], told: str, tmp_path: Path) -> None:
    refused(regard("import", folder_of("BertModel"), tmp_path / "run", *settings), told)
    assert not (tmp_path / "run").exists()
    if "=" in settings[0]:  # without it, it is a text
        refused(regard("predict", folder_of("BertModel"), "a text", *settings, "--device", "cpu"), told)


def test_places_where_no_run_can_be(vectors: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("")
    for place, told in [("file", "is a file"), ("full", "holds other files"), ("file/run", "is a file")]:
        refused(regard("import", folder_of("BertModel"), tmp_path / place), told)
    before = contents(vectors)
    refused(regard("import", folder_of("BertModel"), vectors), f"{vectors} holds a run already", "give another folder")
    assert contents(vectors) == before


def test_a_folder_that_holds_a_trained_run_is_told_to_hold_one_and_nothing_else(tmp_path: Path) -> None:
    run = copy_of_run(tmp_path)
    before = contents(run)
    told = refused(regard("import", folder_of("BertModel"), run), f"{run} holds a run already", "give another folder")
    assert "train." not in told
    assert contents(run) == before


@pytest.mark.parametrize(
    ("name", "told"),
    [("no/such/folder", "There is no folder"), ("", "is an empty text"), ("/", "config.json"), ("~/none", "There is no folder")],
)
def test_names_that_are_none(name: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused(regard("import", name, tmp_path / "run"), told)


def test_bodies_that_give_no_vectors(tmp_path: Path) -> None:
    gpt = export(tmp_path / "gpt", small_gpt())
    for run in (gpt, translator(), trained("gpt")):
        refused(regard("predict", run, "a text", "task.name=embedding", "--device", "cpu"), "embed")


def test_vectors_are_not_trained_and_not_scored(vectors: Path, tmp_path: Path) -> None:
    (tmp_path / "embed.toml").write_text('[task]\nname = "embedding"\n[model]\nfamily = "bert"\n[train]\nsteps = 1\n')
    refused(regard("train", tmp_path / "embed.toml", "--out", tmp_path / "run"), "task.name=embedding is not trained")
    refused(regard("train", vectors / "recipe.toml", "--out", tmp_path / "run"), "task.name=embedding is not trained")
    refused(regard("train", tmp_path / "embed.toml", "--dry-run"), "task.name=embedding is not trained")
    refused(regard("evaluate", vectors), "nothing to score")
    refused(regard("evaluate", vectors, "data.test=a.tsv"), "no test set")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("verb", [["chat"], ["score", "--each"], ["lens"]])
def test_verbs_for_language_models(verb: list[str], vectors: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a text\n")
    what = [] if verb[0] == "chat" else [tmp_path / "text.txt"] if verb[0] == "score" else ["a text"]
    refused(regard(verb[0], vectors, *what, *verb[1:], "--device", "cpu", stdin=b"hello\n"))


def test_texts_that_are_none(vectors: Path, tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    refused(regard("predict", vectors, "--input", tmp_path / "latin.txt"), "is not UTF-8")
    refused(regard("predict", vectors, "--input", tmp_path / "none.txt"), "does not exist")
    refused(regard("predict", vectors, "a", "data.maximum_tokens=0", "word " * 200), "is 802 tokens long")


def test_what_cannot_be_exported(vectors: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("")
    for run, to, kind, told in [
        (vectors, "out", "onxn", "is not a format"),
        (vectors, "full", "hf", "is not an empty folder"),
        (translator(), "out", "hf", "cannot write; for this task it writes t5, bart, marian."),
        (trained("gpt"), "out", "hf", "is a gpt for task classification"),
        (folder_of("BertModel"), "out", "hf", "is not a run"),
        (tmp_path / "nowhere", "out", "hf", "does not exist"),
    ]:
        refused(regard("export", run, tmp_path / to, "--to", kind), told)
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("file", "change", "told"),
    [
        ("labels.json", lambda found: found | {"labels": [*found["labels"], "other"]}, "do not fit its labels.json"),
        ("tokenizer.json", lambda found: found | {"normalizer": None}, "do not fit its tokenizer.json"),
    ],
)
def test_a_run_that_was_changed_is_not_exported(file: str, change: Callable[[Any], Any], told: str, tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained("bert"), tmp_path / "run"))
    rewrite(file, change)(run)
    refused(regard("export", run, tmp_path / "out"), told)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_leave_nothing_behind(value: float, body: Path, tmp_path: Path) -> None:
    """And a good import into the same folder works afterwards."""
    change_tensors(body, lambda found: found["embeddings.LayerNorm.bias"].fill_(value))
    refused(regard("import", body, tmp_path / "new" / "run"), "values that are NaN or infinite")
    assert not (tmp_path / "new").exists()
    assert regard("import", folder_of("BertModel"), tmp_path / "new" / "run").code == 0
    refused(regard("predict", body, "a text", "--device", "cpu"), "values that are NaN or infinite")


def test_an_import_that_is_stopped_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*given: object, **others: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "empty").mkdir()
    with monkeypatch.context() as while_saving:
        while_saving.setattr(Store, "save", stop)
        for place in ("new/run", "empty"):
            assert regard("import", folder_of("BertModel"), tmp_path / place).code == 130
    assert contents(tmp_path) == {"empty": None}
    assert regard("import", folder_of("BertModel"), tmp_path / "empty").code == 0
    with monkeypatch.context() as while_writing:
        while_writing.setattr("regard.interop.huggingface.save.save_file", stop)
        assert regard("export", tmp_path / "empty", tmp_path / "out").code == 130
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_a_pruning_that_is_stopped_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*given: object, **others: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.commands.prune.save", stop)  # the last that is written
    result = regard("prune", translator(), tmp_path / "pruned", "--by", "random", "--device", "cpu")
    assert (result.code, contents(tmp_path)) == (130, {}), result.err

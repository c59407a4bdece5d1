"""What people get wrong with word vectors: one sentence, exit code 2, and nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import refused as told_in_a_sentence
from tests.command import regard
from tests.command import trained as translator
from tests.tasks.tiny_words import lines, settings, trained


def refused(*arguments: str) -> str:
    return told_in_a_sentence(regard(*arguments))


TRAIN = [  # settings, and what is said
    (["data.train="], "data.train is empty"),
    (["data.train=nowhere.txt"], "nowhere.txt does not exist"),
    (["text.tokenizer=bpe"], "text.tokenizer=bpe makes pieces of words"),
    (["text.tokenizer=character"], "text.tokenizer=character makes pieces"),
    (["text.minimum_count=100000"], "Nothing in this text is seen text.minimum_count=100000 times"),
    (["model.width=0"], "model.width=0 must be from 1"),
    (["model.heads=2"], "model.heads is not a setting"),
    (["objective.window=0"], "objective.window=0 must be from 1 to 100"),
    (["objective.negatives=-1"], "objective.negatives=-1 must be"),
    (["objective.x_max=10"], "objective.x_max is not a setting"),
    (["objective.subsample=2"], "objective.subsample=2.0 must be 0 (off) or more and less than 1"),
    (["objective.name=word2vec"], "objective.name=word2vec is not known for task.name=word_vectors"),
    (["train.epochs=0"], "train.epochs=0 must be at least 1"),
    (["train.learning_rate=-1"], "train.learning_rate=-1.0 must be a number above 0"),
    (["train.batch=0"], "train.batch=0 must be at least 1"),
    (["train.threads=-1"], "train.threads=-1 must be from 0"),
    (["train.optimizer=adam"], "train.optimizer is not a setting"),
    (["train.steps=100"], "train.steps is not a setting"),
    (["task.init_from=runs/x"], "runs/x"),
    (["text.vectors=x.vec"], "text.vectors=x.vec is for models that read"),
    (["data.test=nowhere.txt"], "nowhere.txt does not exist"),
    (["data.nearest=0"], "data.nearest=0 must be at least 1"),
    (["data.by=euclid", "data.analogy=mul"], "data.analogy=mul multiplies cosines"),
]


@pytest.mark.parametrize(("wrong", "says"), TRAIN, ids=[" ".join(wrong) for wrong, _ in TRAIN])
def test_a_training_is_refused(wrong: list[str], says: str, tmp_path: Path) -> None:
    assert says in refused("train", "skipgram", *settings("skipgram", *wrong), "--out", str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_text_of_one_word_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("word\n")
    said = refused("train", "cbow", *settings("cbow", f"data.train={tmp_path / 'one.txt'}"), "--out", str(tmp_path / "run"))
    assert "too few to learn from" in said


def test_sentences_of_one_word_have_no_counts(tmp_path: Path) -> None:
    (tmp_path / "alone.txt").write_text("a\nb\na\nb\n")
    said = refused("train", "glove", *settings("glove", f"data.train={tmp_path / 'alone.txt'}"), "--out", str(tmp_path / "run"))
    assert "no word of the text has another in its window" in said


ASKED = [
    (["nowhere"], "the word 'nowhere' has no vector here"),
    (["catt"], "did you mean 'cat'"),
    (["cat dog"], "between two words there must be + or -"),
    (["cat -"], "ends without a word"),
    (["cat", "objective.window=2"], "cannot be set for a trained run"),
    (["cat", "data.by=near"], "data.by=near is not a choice"),
    (["cat", "decode.nearest=3"], "decode.nearest is not a setting"),
]


@pytest.mark.parametrize(("given", "says"), ASKED, ids=[" ".join(given) for given, _ in ASKED])
def test_a_question_is_refused(given: list[str], says: str) -> None:
    assert says in refused("predict", str(trained()), *given)


def test_a_file_of_vectors_can_be_asked_only(tmp_path: Path) -> None:
    file = tmp_path / "x.vec"
    file.write_text("cat 1 2\ndog 2 1\n")
    assert "only data.KEY=VALUE can be set" in refused("predict", str(file), "cat", "decode.beam=3")
    assert "there is nothing to score" in refused("evaluate", str(file))
    for content, says in (("cat,dog,1", "has 1 rated pairs"), (": section\ncat dog cat", "a question has four words")):
        (tmp_path / "test.txt").write_text(f"{content}\n")
        assert says in refused("evaluate", str(file), f"data.test={tmp_path / 'test.txt'}")


def test_what_is_no_file_of_vectors_is_told(tmp_path: Path) -> None:
    (tmp_path / "prose.txt").write_text("\n".join(lines(5)))
    assert "could not convert" in refused("predict", str(tmp_path / "prose.txt"), "cat")
    (tmp_path / "cut.bin").write_bytes(b"5 3\na " + bytes(8))
    assert "5 words of 3 numbers each do not fit" in refused("predict", str(tmp_path / "cut.bin"), "cat")


def test_what_stands_beside_the_uses_of_a_word_are_word_vectors() -> None:
    uses = [str(translator()), "--word", "cat", "the cat sees the dog .", "the dog sees the cat ."]
    assert "not of word vectors" in refused("lens", *uses, "--beside", str(translator()))
    assert "does not exist" in refused("lens", *uses, "--beside", "nowhere.vec")
    assert "--beside" in refused("lens", str(translator()), "the cat", "--beside", str(trained()))
    said = regard("lens", *uses, "--beside", str(trained()))
    assert said.code == 0, said.err
    assert "one vector for 'cat', whatever stands around it; nearest to that are" in said.out


def test_a_map_needs_word_vectors_and_words() -> None:
    assert "--show map draws word vectors" in refused("lens", str(translator()), "cat dog bird", "--show", "map")
    assert "has no vector here" in refused("lens", str(trained()), "cat dog unicorn", "--show", "map")
    assert "from 3 to 300 different words, and these are 2" in refused("lens", str(trained()), "cat dog", "--show", "map")


def test_it_says_what_it_cannot_do(tmp_path: Path) -> None:
    run = str(trained())
    assert "is a word2vec for task word_vectors" in refused("export", run, str(tmp_path / "out"))
    assert "not of word vectors" in refused("export", str(translator()), str(tmp_path / "out"), "--to", "word2vec")
    assert "--to gloves is not a format" in refused("export", run, str(tmp_path / "out"), "--to", "gloves")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert "exists already" in refused("export", run, str(tmp_path / "full"), "--to", "glove")
    assert refused("lens", run, "cat")
    assert refused("lens", run, "--word", "cat", "the cat", "a cat")
    assert refused("chat", run)
    assert refused("score", run, str(tmp_path))
    assert refused("prune", run, str(tmp_path / "pruned"))


def test_a_folder_of_another_task_is_not_trained_in() -> None:
    assert refused("train", "skipgram", *settings("skipgram"), "--out", str(translator()))
    assert regard("predict", str(trained()), "cat").code == 0

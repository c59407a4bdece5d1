"""Every family as a subject: it reads and writes what the model read and wrote, and is scored as its task scores it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.commands.subjects import subject_of
from regard.core.errors import UserError
from regard.core.packing import IGNORED
from regard.lens.subject import TokenRow
from regard.model.block import Stack
from regard.model.probe import attentions, layers, probe
from regard.text.config import KINDS, Kind
from tests.lens.some_subjects import EVERY, PUBLIC, RUNS, answers, side, subject, text_of
from tests.tasks.adopted_folder import folder_of, their_answers
from tests.text.samples import TEXTS, any_text, seen_text, trained


@pytest.mark.parametrize("name", EVERY)
def test_sides_are_what_the_attentions_were_given(name: str) -> None:
    found, seen = subject(name), subject(name).record()
    assert list(seen) == list(attentions(found.model))
    for attention in seen:
        queries, keys = found.around(attention)
        assert seen[attention].q_BHLK.shape[2] == len(queries)
        assert seen[attention].k_BHMK.shape[2] == len(keys)
    assert any(any(part.special) for part in found.sides.values()) or name == "writer"


@pytest.mark.parametrize("name", EVERY)
def test_copies_are_equal_and_gates_act_on_each(name: str) -> None:
    found = subject(name)
    with torch.no_grad():
        logits_BLV, nll_B = found.forward(3), found.nll(3)
        assert logits_BLV.shape[:2] == (3, len(found.targets_L))
        torch.testing.assert_close(nll_B, found.nll().expand(3))
        gates = {one: torch.ones(each.heads) for one, each in attentions(found.model).items()}
        with probe(found.model, gates):
            assert torch.equal(found.forward(3), logits_BLV)
        with probe(found.model, {one: torch.zeros_like(gate_H) for one, gate_H in gates.items()}):
            assert not torch.allclose(found.nll(), nll_B[:1])


@pytest.mark.parametrize("name", [*RUNS, "BertForMaskedLM", "DistilBertForTokenClassification"])
def test_the_score_has_a_gradient(name: str) -> None:
    found = subject(name)
    first = next(iter(attentions(found.model)))
    gate_H = torch.ones(attentions(found.model)[first].heads, requires_grad=True)
    with probe(found.model, {first: gate_H}):
        found.nll().sum().backward()
    assert gate_H.grad is not None
    assert gate_H.grad.abs().sum() > 0
    found.model.zero_grad()


@pytest.mark.parametrize(
    "name", ["translator", "writer", "tagger", "filler", "judge", "BertForMaskedLM", "ElectraForPreTraining"]
)
def test_outputs_and_targets_belong_together(name: str) -> None:
    found = subject(name)
    assert found.outputs is not None
    assert len(found.outputs) == len(found.targets_L)
    assert (found.targets_L != IGNORED).any()
    if name in ("translator", "writer"):
        written = [(i, target) for i, target in zip(found.outputs.ids, found.targets_L.tolist()) if target != IGNORED]
        assert all(i == target for i, target in written)
        assert found.sides["decoder"].tokens[1:] == found.outputs.tokens[:-1]


@pytest.mark.parametrize("name", ["translator", "writer", "filler", "BertForMaskedLM", "labeller"])
def test_the_head_reads_what_the_last_block_leaves(name: str) -> None:
    found = subject(name)
    stack = next(part for part in reversed(list(found.model.modules())) if isinstance(part, Stack))
    left = []
    hook = stack.blocks[-1].register_forward_hook(lambda module, given, x_BLD: left.append(x_BLD))
    with torch.no_grad(), layers(stack):
        logits_BLV = found.forward(1)
        assert found.head is not None
        read = found.head(left[-1])
    hook.remove()
    if name == "labeller":
        assert read.shape[:2] == (1, len(found.sides["decoder"]))  # words, not labels
    else:
        torch.testing.assert_close(read, logits_BLV)


def nll(name: str, target: str | None = None) -> float:
    with torch.no_grad():
        return float(subject(name, target).nll())


def test_a_translator_is_scored_as_its_search_scores() -> None:
    found: Any = answers("translator")
    best = found.translate([text_of("translator")])[0][0]
    assert nll("translator") == pytest.approx(-best.logprob / (len(best.ids) + 1), abs=1e-4)
    assert nll("translator", "le chat voit le chien .") == pytest.approx(
        _teacher_forced(found, text_of("translator"), "le chat voit le chien ."), abs=1e-5
    )


def _teacher_forced(translator: Any, text: str, target: str) -> float:
    source, aim = (each.encode(given) for each, given in zip(translator.tokenizers, (text, target)))
    given = torch.tensor([[*source, 2]]), torch.tensor([len(source) + 1]), torch.tensor([[1, *aim]])
    with torch.no_grad():
        logs_LV = translator.model(*given)[0].log_softmax(-1)
    return float(-logs_LV[range(len(aim) + 1), [*aim, 2]].mean())


def test_every_hypothesis_of_a_beam_can_be_looked_at() -> None:
    found: Any = answers("translator")
    first, second = (subject_of(found, text_of("translator"), hypothesis=n) for n in (0, 1))
    assert first.title != second.title
    with torch.no_grad():
        assert float(first.nll()) == pytest.approx(nll("translator"), abs=1e-5)
    with pytest.raises(UserError, match="--hypothesis 2 was not found: the search kept 2"):
        subject_of(found, text_of("translator"), hypothesis=2)


def test_a_writer_is_scored_on_the_text_or_on_what_follows_it() -> None:
    found: Any = answers("writer")
    (logs,) = found.log_probabilities([found.tokenizer.encode(text_of("writer"))])
    with torch.no_grad():
        ids = torch.tensor([found.tokenizer.encode(text_of("writer"))])
        logs_L = found.model(ids)[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])
    assert len(logs) == ids.shape[1]
    assert nll("writer") == pytest.approx(float(-logs_L.mean()), abs=1e-5)
    after = subject(("writer"), "the bird.")
    scored = (after.targets_L != IGNORED).nonzero().flatten().tolist()
    assert [after.outputs.tokens[n] for n in scored] == ["▁the", "▁bird", "."]  # type: ignore[union-attr]
    own = subject_of(found, "the cat", hypothesis=0)
    assert own.title.startswith("the cat|")
    assert len(own.sides["decoder"]) > 2


def test_a_single_token_can_be_looked_at_but_not_scored() -> None:
    found = subject_of(answers("writer"), "the")
    assert len(found.record()) == 2
    with pytest.raises(UserError, match="nothing that this text could be scored on"):
        found.nll()


def test_those_that_answer_are_scored_by_their_own_probabilities() -> None:
    labeller: Any = answers("labeller")
    answer = labeller.classify([text_of("labeller")])[0]
    assert nll("labeller") == pytest.approx(-np.log(answer.probabilities[answer.label]), abs=1e-5)
    other = next(label for label in answer.probabilities if label != answer.label)
    assert nll("labeller", other) == pytest.approx(-np.log(answer.probabilities[other]), abs=1e-4)
    filler: Any = answers("filler")
    (guesses,) = filler.fill([text_of("filler")])[0].blanks
    assert nll("filler") == pytest.approx(-np.log(guesses[0].probability), abs=1e-4)
    assert nll("filler", guesses[1].word) == pytest.approx(-np.log(guesses[1].probability), abs=1e-4)
    judge: Any = answers("judge")
    suspects = judge.judge([text_of("judge")])[0]
    assert len(suspects) == 5  # "dog." is one, of two pieces
    assert nll("judge") <= -np.log1p(-max(suspect.probability for suspect in suspects))
    tagger: Any = answers("tagger")
    words = tagger.tag([text_of("tagger")])[0].words
    assert nll("tagger") == pytest.approx(-np.mean(np.log([word.probability for word in words])), abs=1e-4)


def test_an_answer_is_where_the_answerer_finds_it() -> None:
    found = subject("answerer")
    start, end = found.targets_L.tolist()
    assert [found.choices(n) for n in range(start, end + 1)] == ["▁cat"]
    assert nll("answerer") < nll("answerer", "blue")
    with pytest.raises(UserError, match="'green' does not stand in the context"):
        subject("answerer", "green")


def test_a_rating_is_the_nearest_step() -> None:
    rater: Any = answers("rater")
    number = rater.rate([("a nice cat", "the big dog")])[0]
    found = subject("rater")
    step = (rater.labels.highest - rater.labels.lowest) / 20
    assert abs(float(found.choices(int(found.targets_L[0]))) - number) <= step
    assert nll("rater") < nll("rater", f"{rater.labels.lowest}") != nll("rater", f"{rater.labels.highest}")


def test_an_embedder_is_scored_on_likeness() -> None:
    embedder: Any = answers("BertModel")
    cosine = embedder.similarity(text_of("BertModel"), "the street was wide")
    found = subject("BertModel", "the street was wide")
    with torch.no_grad():
        assert float(found.forward(1)[0, 0, 0]) == pytest.approx(cosine, abs=1e-5)
        assert float(subject("BertModel").forward(1)[0, 0, 0]) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("name", [name for name in PUBLIC if "For" in name and "PreTraining" not in name and "Quest" not in name])
def test_public_models_answer_as_transformers_does(name: str) -> None:
    found = subject(name)
    theirs = their_answers(folder_of(name), [text_of(name)])["logits"]
    with torch.no_grad():
        ours = found.forward(1)[0]
    torch.testing.assert_close(ours, theirs.reshape(ours.shape), atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.one_of(seen_text, any_text))
@settings(max_examples=15)
def test_words_follow_each_other(kind: Kind, text: str) -> None:
    """Whatever is typed or written, pieces of a word stand together and words are numbered from 0."""
    tokenizer = trained(kind)
    for found in (TokenRow.typed(tokenizer, text), TokenRow.written(tokenizer, tokenizer.encode(text))):
        assert list(found.ids) == tokenizer.encode(text)
        steps = np.diff((-1, *found.words))
        assert ((steps == 0) | (steps == 1)).all()
        assert not any(found.special)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "byte", "byte-bpe", "character"])
@pytest.mark.parametrize("text", TEXTS[:5])
def test_what_is_written_has_the_words_of_what_is_typed(kind: Kind, text: str) -> None:
    tokenizer = trained(kind)
    assert TokenRow.written(tokenizer, tokenizer.encode(text)) == TokenRow.typed(tokenizer, text)


def test_words_by_hand() -> None:
    found = TokenRow.typed(trained("character"), "a cat's  rue")
    assert found.words == (0, 1, 1, 1, 1, 2, 2, 3, 3, 3, 3, 3)  # white space goes with what follows it
    both = side("a", "b", words=(0, 0)) + side("c", special=(0,))
    assert (both.tokens, both.words, both.special) == (("a", "b", "c"), (0, 0, 1), (False, False, True))
    assert both[1:].tokens == ("b", "c")
    with pytest.raises(ValueError, match="one of each for every token"):
        TokenRow(("a",), (1, 2), (0,), (False,))


@pytest.mark.parametrize(
    ("name", "text", "target", "told"),
    [
        ("writer", " ", None, "text is empty"),
        ("writer", "the cat", "", "target is empty"),
        ("writer", "the cat sees the dog. " * 9, None, "but this model sees 16 at a time"),
        ("labeller", "the cat is nice", "goood", "did you mean 'good'"),
        ("pairs", "a cat", None, "put a tab between the two"),
        ("rater", "a cat\ta dog", "much", "not a number"),
        ("rater", "a cat\ta dog", "99", "outside of what this model was trained on"),
        ("tagger", "Ann left Rome", "B-PER O", "2 tags were given for 3 words"),
        ("tagger", "Ann left Rome", "B-PER O B-LOK", "'B-LOK' is not one"),
        ("answerer", "Which animal?", None, "put a tab between a question"),
        ("filler", "the cat sees", "dog", "no blank that 'dog' could fill"),
        ("filler", "the cat <mask> the <mask>", "sees", "1 words were given for 2 blanks"),
        ("filler", "the cat <mask> the dog.", "unfathomably", "'unfathomably' is not in this vocabulary"),
        ("judge", "the cat <mask>", None, "has a blank"),
        ("judge", "the cat", "dog", "leave the target out"),
    ],
)
def test_what_cannot_be_laid_before_a_model_is_told(name: str, text: str, target: str | None, told: str) -> None:
    with pytest.raises(UserError, match=told):
        subject_of(answers(name), text, target)


def test_a_hypothesis_is_for_those_that_search() -> None:
    with pytest.raises(UserError, match="models that write"):
        subject_of(answers("labeller"), "a cat", hypothesis=0)
    with pytest.raises(UserError, match="both a target and --hypothesis 0"):
        subject_of(answers("writer"), "a cat", "sees", 0)
    with pytest.raises(KeyError, match="no attention of a model with"):
        subject("writer").around("encoder.0.self")

"""Windows over long contexts: those that Hugging Face cuts, every token in one, the answer where it is, padded or packed."""

from __future__ import annotations

import numpy as np
import pytest
import tokenizers
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers, processors

from regard.core.packing import IGNORED, Packing
from regard.data.batching.qa import Layout, SpanBatches, Windows, make_batch, windows
from regard.text.offsets import Placed

CLS, SEP, WORDS = 1, 2, 90
PAIR = {"bert": (SEP,), "roberta": (SEP, SEP)}


def placed(ids: list[int]) -> Placed:
    starts = np.arange(len(ids)) * 2
    return Placed(ids, starts, starts + 1)


def layout(window: int, stride: int = 0, question: int = 8, between: tuple[int, ...] = (SEP,)) -> Layout:
    return Layout(CLS, between, SEP, window, stride, question)


def theirs(kind: str, window: int, overlap: int) -> tokenizers.Tokenizer:
    """Cuts the second of two texts into windows that overlap, between the marks of this family."""
    vocabulary = {"[PAD]": 0, "[CLS]": CLS, "[SEP]": SEP, **{f"w{n}": n for n in range(3, WORDS)}}
    found = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[PAD]"))
    found.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    marks = ("[SEP]", SEP), ("[CLS]", CLS)
    found.post_processor = processors.BertProcessing(*marks) if kind == "bert" else processors.RobertaProcessing(*marks)
    found.enable_truncation(window, stride=overlap, strategy="only_second")
    return found


def spelled(ids: list[int]) -> str:
    return " ".join(f"w{n}" for n in ids)


ids = st.integers(3, WORDS - 1)


@pytest.mark.parametrize("kind", PAIR)
@given(st.lists(ids, min_size=1, max_size=6), st.lists(ids, min_size=1, max_size=50), st.integers(2, 20), st.data())
@settings(max_examples=40)
def test_windows_are_those_of_hugging_face(
    kind: str, question: list[int], context: list[int], room: int, data: st.DataObject
) -> None:
    step = data.draw(st.integers(1, room))
    window = room + len(question) + 2 + len(PAIR[kind])
    ours = windows(layout(window, step, between=PAIR[kind]), [question], [placed(context)], [None])
    first = theirs(kind, window, room - step).encode(spelled(question), spelled(context))
    assert [ours.ids[n].tolist() for n in range(len(ours))] == [encoding.ids for encoding in [first, *first.overflowing]]
    assert all(row[:begin].tolist() == first.ids[:begin] for row, begin in zip([ours.ids[0]], ours.contexts))


@given(st.lists(st.tuples(st.lists(ids, max_size=12), st.lists(ids, min_size=1, max_size=40)), min_size=1, max_size=5), st.data())
@settings(max_examples=60)
def test_the_answer_is_where_it_is_said_to_be(asked: list[tuple[list[int], list[int]]], data: st.DataObject) -> None:
    """And nothing of a context is in no window."""
    answers: list[tuple[int, int] | None] = []
    for _, context in asked:
        first = data.draw(st.integers(0, len(context) - 1))
        answers.append(data.draw(st.one_of(st.none(), st.just((first, data.draw(st.integers(first, len(context) - 1)))))))
    kind = layout(data.draw(st.integers(12, 30)), data.draw(st.integers(0, 1)))
    found = windows(kind, [q for q, _ in asked], [placed(c) for _, c in asked], answers)
    seen: list[set[int]] = [set() for _ in asked]
    for n in range(len(found)):
        number, begin, row = int(found.questions[n]), int(found.begins[n]), found.ids[n].tolist()
        question, context = asked[number]
        part = row[found.contexts[n] : -1]
        assert len(row) <= kind.window
        assert row[: found.contexts[n]] == [CLS, *question[: kind.question], SEP]
        assert part == context[begin : begin + len(part)]
        assert row[-1] == SEP
        seen[number] |= set(range(begin, begin + len(part)))
        first, last = found.targets[n].tolist()
        answer = answers[number]
        inside = answer is not None and begin <= answer[0] and answer[1] < begin + len(part)
        assert (first > 0) == inside
        if answer and inside:
            assert row[first : last + 1] == context[answer[0] : answer[1] + 1]
        else:
            assert (first, last) == (0, 0)
    assert seen == [set(range(len(context))) for _, context in asked]
    whole = {int(found.questions[n]) for n in range(len(found)) if found.targets[n, 0]}
    assert found.lost == len(asked) - len(whole)


def some(count: int = 40, compares: bool = False) -> Windows:
    draw = np.random.default_rng(0)
    questions = [draw.integers(3, 20, draw.integers(1, 9)).tolist() for _ in range(count)]
    contexts = [placed(draw.integers(3, 20, draw.integers(2, 40)).tolist()) for _ in range(count)]
    return windows(
        layout(24)._replace(compares=compares), questions, contexts, [None if n % 5 == 0 else (1, 1) for n in range(count)]
    )


@pytest.mark.parametrize("compares", [False, True])
def test_padded_and_packed_hold_the_same(compares: bool) -> None:
    """And where it is asked for, a third segment says which tokens of the context the question has."""
    data, rows = some(compares=compares), np.array([5, 2, 11, 30])
    assert data.shared.any() == compares
    one, other = make_batch(data, rows), make_batch(data, rows, packed=True)
    assert isinstance(other.words, Packing)
    assert isinstance(one.words, torch.Tensor)
    assert one.tokens == other.tokens == SpanBatches(data, 99, 0).count(rows) == 4
    assert one.targets_N2.tolist() == other.targets_N2[:4].tolist() == data.targets[rows].tolist()
    assert (other.targets_N2[4:] == IGNORED).all()
    assert not other.choosable_BL[0, int(data.ids.lengths[rows].sum()) :].any()
    starts = other.words.starts_N.tolist()
    for n, row in enumerate(rows):
        length, begin = int(one.words[n]), int(data.contexts[row])
        question, row_ids = set(data.ids[row][1 : begin - 1].tolist()), data.ids[row].tolist()
        shared = [begin <= place < length - 1 and row_ids[place] in question for place in range(length)]
        segments = [int(place >= begin) + (compares and shared[place]) for place in range(length)]
        choosable = [place == 0 or begin <= place < length - 1 for place in range(length)]
        for name, expected in (("ids_BL", data.ids[row].tolist()), ("segments_BL", segments), ("choosable_BL", choosable)):
            assert getattr(one, name)[n, :length].tolist() == expected
            assert getattr(other, name)[0, starts[n] : starts[n + 1]].tolist() == expected
        assert not one.choosable_BL[n, length:].any()


def test_an_epoch_has_every_window_once_within_the_budget() -> None:
    data = some()
    source = SpanBatches(data, 60, seed=3)
    plan = source.plan(2)
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(data)))
    assert all(len(rows) == 1 or len(rows) * data.ids.lengths[rows].max() <= 60 for rows in plan)
    assert [r.tolist() for r in plan] == [r.tolist() for r in SpanBatches(data, 60, seed=3).plan(2)]
    assert [r.tolist() for r in plan] != [r.tolist() for r in source.plan(3)]


def test_the_digest_sees_every_part() -> None:
    one, other = some(), some()
    assert one.digest() == other.digest()
    other.targets[3, 1] += 1
    assert one.digest() != other.digest()
    assert some(39).digest() != one.digest()


def test_a_context_of_many_thousand_tokens() -> None:
    context = placed([3 + n % 80 for n in range(30_000)])
    found = windows(layout(512, 128), [[5] * 90], [context], [(29_990, 29_999)])
    assert len(found) == -(-(30_000 - (512 - 8 - 3)) // 128) + 1
    assert (found.targets[:, 0] > 0).nonzero()[0].tolist()[-1] == len(found) - 1

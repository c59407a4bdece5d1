"""Noise: lengths, rates and order as the papers have them; the text can be found again; the same number gives the same noise."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.core.rng import generator
from regard.data.batching import noise
from regard.data.batching.noise import ALONE, KINDS, Noise, NoiseIds, fill_spans, parse_noise, passage_length, span_counts
from regard.text.tokenizer import train_tokenizer

MASK, STOP = 3, 10
WORDS = np.arange(2000, 2010)  # that come at random: none is in a text
SENTINELS = np.arange(1099, 999, -1)
ENDS = np.zeros(1100, bool)
ENDS[STOP] = True
PASSAGES = st.lists(st.integers(4, 60), min_size=1, max_size=120).map(np.array)
NUMBERS = st.integers(0, 10**6)
RATES = st.sampled_from([0.1, 0.15, 0.3, 0.5, 0.9])
SPANS = st.sampled_from([1.0, 3.0, 3.5, 10.0])


def noise_of(kinds: str, rate: float = 0.15, mean_span: float = 3.0, seed: int = 1, mask_random: float = 0.0) -> Noise:
    return Noise(parse_noise(kinds), rate, mean_span, NoiseIds(MASK, SENTINELS, ENDS, WORDS), seed, mask_random)


@given(PASSAGES, NUMBERS, RATES, SPANS)
@example(np.array([7]), 0, 0.15, 3.0)
@example(np.array([7, 8]), 0, 0.9, 1.0)
def test_span_corruption_gives_the_text_back(ids: np.ndarray, number: int, rate: float, mean_span: float) -> None:
    read, written = noise_of("span_corruption", rate, mean_span)(ids, number)
    count, spans = span_counts(len(ids), rate, mean_span)
    assert fill_spans(read, written, SENTINELS).tolist() == ids.tolist()
    assert [i for i in read if i >= 1000] == [i for i in written if i >= 1000] == SENTINELS[:spans].tolist()
    assert len(read) == len(ids) - count + spans
    assert len(written) == count + spans
    assert written[0] == SENTINELS[0]  # a target begins with a sentinel ...
    assert written[-1] < 1000  # ... and ends with a word
    assert len(ids) < 2 or read[0] < 1000


@pytest.mark.parametrize(("length", "count", "spans"), [(568, 85, 28), (512, 77, 26), (100, 15, 5), (10, 2, 1), (2, 1, 1)])
def test_span_counts_are_those_of_the_paper(length: int, count: int, spans: int) -> None:
    assert span_counts(length, 0.15, 3.0) == (count, spans)


def test_the_input_of_512_comes_from_568_tokens_and_has_a_target_of_114() -> None:
    """The figures of T5's code for its published settings."""
    assert passage_length(512, 0.15, 3.0) == 568
    assert sum(span_counts(568, 0.15, 3.0)) + 1 == 114


@given(st.integers(8, 700), RATES, SPANS)
def test_a_corrupted_passage_fills_its_window(window: int, rate: float, mean_span: float) -> None:
    length = passage_length(window, rate, mean_span)
    for more, fits in ((0, True), (1, False)):
        count, spans = span_counts(length + more, rate, mean_span)
        assert (length + more - count + spans + 1 <= window) == fits


def test_t5s_own_example() -> None:
    """Figure 2 of the paper, by its words; its last sentinel is the one that T5's code does not write."""
    text = np.array([20, 21, 22, 23, 24, 25, 26, 27, 28, 29])  # Thank you for inviting me to your party last week
    read, written = np.array([20, 21, 1099, 24, 25, 26, 27, 1098, 29]), np.array([1099, 22, 23, 1098, 28])
    assert fill_spans(read, written, SENTINELS).tolist() == text.tolist()
    assert fill_spans(read, np.append(written, 1097), SENTINELS).tolist() == text.tolist()


def test_what_a_model_writes_wrongly_is_put_where_it_says() -> None:
    read = np.array([20, 1099, 21, 1098, 22])
    assert fill_spans(read, np.array([5, 1098, 6, 1099, 7, 8]), SENTINELS).tolist() == [20, 7, 8, 21, 6, 22]
    assert fill_spans(read, np.array([], np.int64), SENTINELS).tolist() == [20, 21, 22]


@given(st.integers(1, 9), st.data())
def test_parts_are_uniform_over_all_ways_to_cut(total: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, total))
    found = noise.parts(total, count, np.random.default_rng(0))
    assert found.sum() == total
    assert (found > 0).all()
    assert len(found) == count


def test_every_way_to_cut_five_in_three_is_as_likely() -> None:
    random = np.random.default_rng(1)
    drawn = Counter(tuple(noise.parts(5, 3, random).tolist()) for _ in range(6000))
    assert len(drawn) == 6
    assert all(abs(count - 1000) < 150 for count in drawn.values())  # five standard deviations


@given(PASSAGES, NUMBERS, RATES, SPANS)
@example(np.array([7]), 0, 0.15, 3.0)
def test_infilling_hides_its_share_one_mask_a_span(ids: np.ndarray, number: int, rate: float, mean_span: float) -> None:
    read, written = noise_of("infilling", rate, mean_span)(ids, number)
    assert written.tolist() == ids.tolist()
    left = [i for i in read if i != MASK]
    assert len(left) == len(ids) - min(len(ids), max(1, round(rate * len(ids))))
    assert 1 <= len(read) <= len(ids)
    assert not any(a == b == MASK for a, b in pairwise(read))
    pattern = "".join("(?:,[0-9]+)*" if i == MASK else f",{i}" for i in read)
    assert re.fullmatch(pattern, "".join(f",{i}" for i in ids))


def test_span_lengths_of_infilling_are_poisson() -> None:
    """Mean 3, and e^-3 = 5% of length 0, which are masks put in. The last span of a passage is cut."""
    ids, source = np.arange(100, 1100), noise_of("infilling", 0.3)
    masks = lengths = empty = 0
    for number in range(200):
        read = source(ids, number).input
        known = np.concatenate([[99], read, [1100]])
        for place in np.flatnonzero(known == MASK):
            length = known[place + 1] - known[place - 1] - 1
            masks, lengths, empty = masks + 1, lengths + length, empty + (length == 0)
    assert lengths == 200 * 300
    assert lengths / masks == pytest.approx(3, abs=0.06)
    assert empty / masks == pytest.approx(np.exp(-3), abs=0.008)


@pytest.mark.parametrize("kinds", ["masking", "infilling", "permutation+infilling"])
@given(PASSAGES, NUMBERS)
def test_random_words_stand_where_masks_would(kinds: str, ids: np.ndarray, number: int) -> None:
    plain, mixed = noise_of(kinds, 0.5)(ids, number), noise_of(kinds, 0.5, mask_random=0.4)(ids, number)
    changed = plain.input != mixed.input
    assert (plain.input[changed] == MASK).all()
    assert np.isin(mixed.input[changed], WORDS).all()
    assert mixed.target.tolist() == ids.tolist()
    whole = noise_of(kinds, 0.5, mask_random=1.0)(ids, number).input
    assert (np.isin(whole, WORDS) == (plain.input == MASK)).all()


def test_as_many_random_words_as_asked_for_and_every_word_as_often() -> None:
    """10,000 masks, 10% of them: a deviation of 30; each of ten words 100 times, chi-square by hand."""
    ids, source = np.arange(100, 600), noise_of("masking", 0.2, mask_random=0.1)
    read = np.concatenate([source(ids, number).input for number in range(100)])
    words = read[np.isin(read, WORDS)]
    assert (read == MASK).sum() + len(words) == 10_000
    assert abs(len(words) - 1000) < 4 * 30
    counts = np.bincount(words - WORDS[0], minlength=10)
    assert ((counts - len(words) / 10) ** 2 / (len(words) / 10)).sum() < 27.9  # 0.999 of chi-square of 9


def test_words_are_no_special_tokens() -> None:
    tokenizer = train_tokenizer("word", ["the cat sees the dog ."] * 5, 40).with_mask().with_sentinels(4)
    names = [tokenizer.raw.id_to_token(i) for i in NoiseIds.of(tokenizer).words.tolist()]
    assert {"▁the", "▁cat", "."} < {*names}
    assert not any(name.startswith("<") for name in names)


@given(PASSAGES, NUMBERS, RATES)
def test_masking_changes_its_share_and_nothing_else(ids: np.ndarray, number: int, rate: float) -> None:
    read, written = noise_of("masking", rate)(ids, number)
    assert written.tolist() == ids.tolist()
    assert (read == MASK).sum() == max(1, round(rate * len(ids)))
    assert (read[read != MASK] == ids[read != MASK]).all()


@given(PASSAGES, NUMBERS, RATES)
def test_deletion_leaves_its_share_out_in_order(ids: np.ndarray, number: int, rate: float) -> None:
    read, written = noise_of("deletion", rate)(ids, number)
    assert written.tolist() == ids.tolist()
    assert len(read) == len(ids) - max(1, round(rate * len(ids)))
    rest = iter(ids.tolist())
    assert all(i in rest for i in read.tolist())


@given(PASSAGES, NUMBERS)
def test_permutation_keeps_every_sentence_whole(ids: np.ndarray, number: int) -> None:
    read, written = noise_of("permutation")(ids, number)
    assert written.tolist() == ids.tolist()
    own = [part.tolist() for part in noise.sentences(ids, ENDS)]
    assert np.concatenate(own).tolist() == ids.tolist()
    assert sorted(read.tolist()) == sorted(ids.tolist())
    if ids[-1] == STOP:
        assert sorted(part.tolist() for part in noise.sentences(read, ENDS)) == sorted(own)


def test_every_order_of_three_sentences_is_as_likely() -> None:
    ids, source = np.array([20, STOP, 21, 22, STOP, STOP, 23]), noise_of("permutation")
    drawn = Counter(tuple(source(ids, number).input.tolist()) for number in range(3000))
    assert len(drawn) == 6
    assert all(abs(count - 500) < 105 for count in drawn.values())


@given(PASSAGES, NUMBERS)
def test_rotation_turns_and_every_beginning_occurs(ids: np.ndarray, number: int) -> None:
    read, written = noise_of("rotation")(ids, number)
    assert written.tolist() == ids.tolist()
    assert any(np.roll(read, n).tolist() == ids.tolist() for n in range(len(ids)))


def test_rotations_and_cuts_are_uniform() -> None:
    ids = np.arange(20, 25)
    begun = Counter(int(noise_of("rotation")(ids, n).input[0]) for n in range(2500))
    cut = Counter(len(noise_of("prefix_lm")(ids, n).input) for n in range(2500))
    assert sorted(begun) == ids.tolist()
    assert sorted(cut) == [1, 2, 3, 4]
    assert all(abs(count - 500) < 100 for count in begun.values())
    assert all(abs(count - 625) < 110 for count in cut.values())


@given(PASSAGES, NUMBERS)
def test_language_models_write_what_they_have_not_read(ids: np.ndarray, number: int) -> None:
    prefix, causal = noise_of("prefix_lm")(ids, number), noise_of("causal_lm")(ids, number)
    assert np.concatenate(prefix).tolist() == ids.tolist()
    assert len(prefix.target)
    assert len(prefix.input) or len(ids) == 1
    assert (len(causal.input), causal.target.tolist()) == (0, ids.tolist())


@pytest.mark.parametrize("kinds", [*KINDS, "permutation+infilling", "masking+deletion+rotation"])
@given(PASSAGES, NUMBERS)
def test_a_number_always_gives_the_same_noise(kinds: str, ids: np.ndarray, number: int) -> None:
    """Nothing is carried from one passage to the next, so a run that goes on draws as one that never stopped."""
    one, other = noise_of(kinds), noise_of(kinds)
    other(ids, number + 1)
    before = ids.copy()
    first, second = one(ids, number), other(ids, number)
    assert first.input.tolist() == second.input.tolist()
    assert first.target.tolist() == second.target.tolist()
    assert (ids == before).all()
    assert one.target_length(len(ids), number) == len(first.target)


@pytest.mark.parametrize("kinds", sorted(set(KINDS) - {"causal_lm"}))
def test_other_numbers_and_seeds_give_other_noise(kinds: str) -> None:
    ids = np.tile([20, 21, 22, STOP], 12) + np.repeat(np.arange(12), 4) * 0
    ids[::4] += np.arange(12)

    def drawn(number: int, seed: int) -> list[int]:
        return noise_of(kinds, seed=seed)(ids, number).input.tolist()

    assert drawn(1, 1) != drawn(2, 1)
    assert drawn(1, 1) != drawn(1, 2)


@given(PASSAGES, NUMBERS)
def test_joined_noises_change_one_after_the_other(ids: np.ndarray, number: int) -> None:
    both = noise_of("permutation+deletion", 0.3)(ids, number)
    shuffled = noise.permutation(ids, generator(1, "noise permutation", number), ENDS).input
    assert both.input.tolist() == noise.deletion(shuffled, generator(1, "noise deletion", number), 0.3).input.tolist()
    assert both.target.tolist() == ids.tolist()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("spans", "'spans' is no kind of noise"),
        ("mask", "did you mean 'masking'"),
        ("", "'' is no kind"),
        ("masking+", "'' is no kind"),
        ("masking+masking", "masking twice"),
        *[(f"{kind}+masking", f"{kind} has a target of its own") for kind in ALONE],
    ],
)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        parse_noise(text)


@pytest.mark.parametrize(
    ("kinds", "ids", "said"),
    [
        ("span_corruption", {"sentinels": SENTINELS[:5]}, "needs 9 sentinels for windows of 160 tokens"),
        ("infilling", {"mask": None}, "hides tokens behind <mask>"),
        ("permutation+masking", {"mask": None}, "objective.noise=permutation+masking hides"),
    ],
)
def test_a_vocabulary_that_lacks_a_token_is_refused(kinds: str, ids: dict[str, Any], said: str) -> None:
    poor = Noise(parse_noise(kinds), 0.15, 3.0, NoiseIds(MASK, SENTINELS, ENDS)._replace(**ids), 1)
    with pytest.raises(UserError, match=re.escape(said)):
        poor.check(160)
    noise_of(kinds).check(160)


def test_the_tokens_of_a_vocabulary() -> None:
    text = ["One end. Two? Three! He said: (yes.) And no comma, 3.5 or so", 'A "quoted." end.']
    for kind in ("bpe", "byte-bpe", "unigram", "word"):
        tokenizer = train_tokenizer(kind, text, 400).with_mask().with_sentinels(4)
        ids = NoiseIds.of(tokenizer)
        assert ids.mask == tokenizer.roles.mask
        assert ids.sentinels.tolist() == tokenizer.sentinels()
        ends = set(tokenizer.tokens(np.flatnonzero(ids.ends_sentence).tolist()))
        assert {"?", "!"} <= {piece[-1:] for piece in ends}
        assert all(piece.strip("'\")")[-1:] in {*".!?\n", ""} for piece in ends if "\\n" not in piece), ends
        assert not any(ids.ends_sentence[i] for i in tokenizer.encode("comma, or so"))

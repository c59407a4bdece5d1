"""A trained writer against plain loops over its model: every search, stop, ban and prefix, alone, in batches, past the window."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from regard.core.errors import UserError
from regard.metrics.likelihood import log_probabilities as reference_scores
from regard.model.probe import probe
from regard.tasks.language_model.predict import TextGenerator, Written
from tests.tasks.tiny_text import ANIMALS, SEES, WINDOW, log_probabilities, writer

PROMPTS = ["the cat", "the", "", "the dog sees the bird.\nthe horse", "horse likes the", "the cat sees"]
KINDS = {"byte-bpe": 290, "bpe": 60, "character": 40, "word": 30}


def plain(found: TextGenerator, prompts: Sequence[str], first: int = 0) -> list[list[tuple[str, list[int]]]]:
    return [[(written.text, written.ids) for written in texts] for texts in found.write(prompts, first)]


def prompt_ids(found: TextGenerator, prompt: str) -> list[int]:
    return found.tokenizer.encode(prompt) or [found.start]


def only(found: TextGenerator, prompt: str) -> Written:
    ((written,),) = found.write([prompt])
    return written


def end_of(found: TextGenerator) -> int:
    assert found.tokenizer.roles.eos is not None
    return found.tokenizer.roles.eos


def greedily(found: TextGenerator, prompt: Sequence[int], most: int, least: int = 0) -> list[int]:
    """By one whole pass for every token; where the window is full, from its last half."""
    end, half, ids = end_of(found), WINDOW // 2, list[int]()
    seen = list(prompt)[-half:] if len(prompt) > WINDOW else list(prompt)
    while len(ids) < most:
        scores_V = log_probabilities(found, seen)[-1]
        scores_V[sorted(found.tokenizer.specials - {end if len(ids) >= least else None})] = -torch.inf
        if (token := int(scores_V.argmax())) == end:
            break
        ids.append(token)
        seen = seen[1 - half :] if len(seen) == WINDOW else seen
        seen.append(token)
    return ids


# the same text, whatever it is written with ---------------------------------------------------------------------------
@pytest.mark.parametrize("decode", [{}, {"sliding_window": True, "maximum_length": 40, "minimum_length": 30}, {"samples": 3}])
def test_a_text_depends_on_its_seed_and_its_number_alone(decode: dict[str, Any]) -> None:
    found = writer(seed=5, **decode)
    together = plain(found, PROMPTS)
    assert together == [plain(found, [prompt], number)[0] for number, prompt in enumerate(PROMPTS)]
    assert together == plain(writer(seed=5, batch_tokens=1, **decode), PROMPTS)
    assert together[3:] == plain(found, PROMPTS[3:], 3)
    assert together != plain(writer(seed=6, **decode), PROMPTS)


def test_samples_differ_and_the_first_is_the_one_of_one() -> None:
    many, one = writer(samples=6), writer()
    for samples, (alone,) in zip(plain(many, PROMPTS), plain(one, PROMPTS)):
        assert samples[0] == alone
        assert len({text for text, _ in samples}) > 1
    same = plain(one, ["the cat"] * 4)
    assert len({texts[0][0] for texts in same}) > 1  # the same prompt again is another number


@pytest.mark.parametrize("kind", KINDS)
def test_prompt_and_text_are_what_all_their_tokens_say(kind: str) -> None:
    """The space between the two included, which some vocabularies lose at a beginning."""
    found = writer(kind, KINDS[kind], samples=3)
    for samples in found.write(["the cat"]):
        for written in samples:
            ids = found.tokenizer.encode("the cat")
            assert found.tokenizer.decode([*ids, *written.ids]) == f"the cat{written.text}"
    ranked = only(writer(kind, KINDS[kind], search="beam"), "the cat")
    assert found.tokenizer.decode([*found.tokenizer.encode("the cat"), *ranked.ids]) == f"the cat{ranked.text}"
    assert found("the cat") == samples[0].text
    assert found(["the cat", "the"])[0] == samples[0].text


# what the numbers say -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "decode",
    [{"samples": 20}, {"search": "greedy"}, {"search": "beam", "n_best": 4}, {"samples": 20, "prefix": " dog", "top_k": 3}],
)
def test_log_probabilities_are_those_of_one_pass(decode: dict[str, Any]) -> None:
    found = writer(maximum_length=10, **decode)
    ended = 0
    for prompt, texts in zip(("the cat sees the dog", ""), found.write(["the cat sees the dog", ""])):
        before = prompt_ids(found, prompt)
        for written in texts:
            aims = [*written.ids, *([end_of(found)] if written.finished else [])]
            expected = log_probabilities(found, [*before, *aims[:-1]])[len(before) - 1 :][range(len(aims)), aims]
            np.testing.assert_allclose([token.logprob for token in written.tokens], expected[: len(written.ids)], atol=1e-4)
            assert written.logprob == pytest.approx(expected.sum().item(), abs=1e-4)
            assert [token.token for token in written.tokens] == found.tokenizer.tokens(written.ids)
            ended += written.finished
    assert ended


def test_greedy_search_takes_the_likeliest_token_each_time() -> None:
    found = writer(search="greedy", maximum_length=11)
    for prompt in PROMPTS[:3]:
        assert only(found, prompt).ids == greedily(found, prompt_ids(found, prompt), 11)


def test_a_beam_as_wide_as_the_vocabulary_finds_the_best_of_all() -> None:
    found = writer("character", 40, search="beam", beam=400, n_best=25, length_penalty=0.0, maximum_length=2)
    before, end = found.tokenizer.encode("the do"), end_of(found)
    letters = sorted(set(range(len(found.tokenizer))) - found.tokenizer.specials)
    first_V = log_probabilities(found, before)[-1]
    second_V = {one: log_probabilities(found, [*before, one])[-1] for one in letters}
    every: dict[tuple[int, ...], float] = {(end,): first_V[end].item()}
    every |= {(one, two): (first_V[one] + second_V[one][two]).item() for one, two in product(letters, [*letters, end])}
    best = sorted(every.items(), key=lambda pair: (pair[0][-1] != end, -pair[1]))[:25]  # what has ended comes first
    (ranked,) = found.write(["the do"])
    assert [(*written.ids, *([end] if written.finished else [])) for written in ranked] == [ids for ids, _ in best]
    np.testing.assert_allclose([written.logprob for written in ranked], [score for _, score in best], atol=1e-4)


# where it ends --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["byte-bpe", "character"])
@pytest.mark.parametrize("decode", [{"maximum_length": 14}, {"maximum_length": 40, "sliding_window": True, "minimum_length": 39}])
def test_a_stop_ends_the_text_before_it_and_nothing_behind_it_is_kept(kind: str, decode: dict[str, Any]) -> None:
    """Stops of one letter and of many tokens, in the middle, and as the first thing written."""
    free = only(writer(kind, KINDS[kind], search="greedy", **decode), "the")
    assert len(free.text) > 8
    pieces: list[str] = []
    for begin, size in [(0, 1), (0, 5), (2, 1), (3, 6), (len(free.text) - 4, 4)]:
        stop, pieces = free.text[begin : begin + size], []
        found = writer(kind, KINDS[kind], search="greedy", stop=(stop, "\0never"), **decode)
        (((written,),)) = found.write(["the"], emit=pieces.append)
        assert written.text == "".join(pieces) == free.text[: free.text.index(stop)]
        assert (written.stopped, written.finished) == (True, False)
        kept = len(written.ids)
        assert written.ids == free.ids[:kept]
        assert written.tokens == [(t, pytest.approx(p, abs=1e-5)) for t, p in free.tokens[:kept]]
        before = found.tokenizer.encode("the")
        assert stop in found.tokenizer.decode([*before, *free.ids[:kept]])[3:]
        assert stop not in found.tokenizer.decode([*before, *free.ids[: kept - 1]])[3:]


def test_a_stop_that_does_not_come_changes_nothing() -> None:
    free, stopped = (only(writer(seed=3, stop=stop), "the cat") for stop in ((), ("zebra",)))
    assert stopped == free
    assert not stopped.stopped


def test_each_text_stops_by_itself() -> None:
    for texts in writer(samples=8, maximum_length=14, stop=(" the", "\n")).write(PROMPTS[:2]):
        assert any(written.stopped for written in texts)
        assert not any(stop in written.text for written in texts for stop in (" the", "\n"))


def test_minimum_length_holds_for_every_text_past_the_window() -> None:
    found = writer(sliding_window=True, minimum_length=30, maximum_length=32, samples=4)
    for texts in found.write(["the", "the dog sees the bird.\nthe horse likes the cat.\nthe"]):
        assert all(len(written.ids) >= 30 for written in texts)


# what may come out ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["byte-bpe", "bpe", "character", "word"])
def test_banned_words_do_not_come_out_in_any_spelling(kind: str) -> None:
    """At a temperature at which pieces of words are common."""
    settings = dict(samples=40, maximum_length=11, temperature=1.6)
    free = [written.text for written in writer(kind, KINDS[kind], **settings).write(["the"])[0]]
    banned = [written.text for written in writer(kind, KINDS[kind], banned_words=("cat", "the"), **settings).write(["the"])[0]]
    assert any(word in text.split() for text in free for word in ("cat", "the"))
    assert not any(word in text.replace(".", " ").split() for text in banned for word in ("cat", "the"))


@pytest.mark.parametrize("kind", ["byte-bpe", "bpe", "character"])
def test_a_word_is_banned_in_pieces_and_across_the_end_of_the_prompt(kind: str) -> None:
    """Not only in the pieces that the tokenizer would choose."""
    settings = dict(samples=1000, maximum_length=1, temperature=4.0)
    free, banned = (
        {written.text for written in writer(kind, KINDS[kind], banned_words=words, **settings).write(["the ca"])[0]}
        for words in ((), ("cat",))
    )
    assert "t" in free
    assert "t" not in banned


@pytest.mark.parametrize("decode", [{"samples": 3}, {"search": "greedy"}, {"search": "beam", "n_best": 2}])
def test_every_output_begins_with_the_prefix(decode: dict[str, Any]) -> None:
    found = writer(prefix=" dog likes", **decode)
    for texts in found.write(PROMPTS[:3]):
        for written in texts:
            assert written.text.startswith(" dog likes")
            assert written.ids[:2] == found.tokenizer.encode(" dog likes")


def test_a_prefix_goes_on_where_the_window_has_ended() -> None:
    """The prompt leaves room for two tokens of it, then the window slides."""
    found = writer(sliding_window=True, prefix=" dog dog.\n\n dog", maximum_length=12, search="greedy")
    prompt = "the dog sees the bird.\nthe horse likes the cat.\nthe"
    assert len(found.tokenizer.encode(prompt)) == WINDOW - 1
    assert only(found, prompt).text.startswith(" dog dog.\n\n dog")


def test_a_prefix_that_has_no_room_is_refused() -> None:
    with pytest.raises(UserError, match=r"decode\.prefix has 5 tokens.* room for 3; .*raise decode\.maximum_length"):
        only(writer(prefix=" dog likes the horse.", maximum_length=3), "the")
    with pytest.raises(UserError, match=r"decode\.prefix has 5 tokens.* room for 4"):
        only(writer(prefix=" dog likes the horse.", maximum_length=0), "the dog sees the bird.\nthe horse likes the cat.")


def test_where_nothing_may_come_the_text_ends() -> None:
    """Sliding windows included, which would try again for ever."""
    found = writer(
        "word", 30, sliding_window=True, maximum_length=40, minimum_length=39, banned_words=(*ANIMALS, *SEES, "the", ".")
    )
    assert (only(found, "the cat").ids, only(found, "the cat").finished) == ([], False)


# past what it sees ----------------------------------------------------------------------------------------------------
LONG = ["the", "cat", "sees", "the", "dog", "hears"] * 6


@pytest.mark.parametrize("words", [1, 4, 14, 15, 16, 17, 30])
def test_a_sliding_window_goes_on_from_its_last_half(words: int) -> None:
    found = writer("word", 30, search="greedy", sliding_window=True, maximum_length=40, minimum_length=38)
    prompt = " ".join(LONG[:words])
    ids = found.tokenizer.encode(prompt)
    assert len(ids) == words
    written = only(found, prompt)
    assert len(written.ids) >= 38
    assert written.ids == greedily(found, ids, 40, 38)


def test_what_does_not_fit_is_refused_with_what_to_do() -> None:
    fits = writer("word", 30, maximum_length=0)
    assert len(only(fits, " ".join(LONG[:16])).tokens) <= 1
    with pytest.raises(UserError, match=r"the prompt has 17 tokens, but this model sees 16; .*decode\.sliding_window=true"):
        only(fits, " ".join(LONG[:17]))
    with pytest.raises(UserError, match=r"the prompt has 17 tokens"):
        only(writer("word", 30, maximum_length=0, search="beam"), " ".join(LONG[:17]))
    with pytest.raises(
        UserError, match=r"decode\.maximum_length=12 after a prompt of 6 tokens .* lower it to 11, or set decode\.sliding_window"
    ):
        only(writer("word", 30, maximum_length=12), " ".join(LONG[:6]))
    assert only(writer("word", 30, maximum_length=11), " ".join(LONG[:6])).ids


def test_one_that_does_not_fit_stops_all_before_any_is_written() -> None:
    pieces: list[str] = []
    with pytest.raises(UserError):
        writer("word", 30, maximum_length=0).write(["the cat", " ".join(LONG)], emit=pieces.append)
    assert not pieces


# what people get ------------------------------------------------------------------------------------------------------
def predicted(found: TextGenerator, texts: Sequence[str], first: int | None = None, as_json: bool = False) -> list[str]:
    pieces: list[str] = []
    found.predict(texts, first, as_json, pieces.append)
    return pieces


def test_json_is_whole() -> None:
    found = writer(samples=2, stop=(".",), maximum_length=8)
    lines = "".join(predicted(found, PROMPTS[:3], 7, as_json=True)).splitlines()
    for line, prompt, texts in zip(lines, PROMPTS, found.write(PROMPTS[:3], 7), strict=False):
        record = json.loads(line)
        assert record["prompt"] == prompt
        for output, written in zip(record["outputs"], texts, strict=True):
            assert Written(**{**output, "tokens": written.tokens}) == written
            assert output["tokens"] == [{"token": token, "logprob": logprob} for token, logprob in written.tokens]
    assert len(lines) == 3


@pytest.mark.parametrize("decode", [{}, {"search": "greedy"}, {"search": "beam"}, {"sliding_window": True, "maximum_length": 40}])
def test_one_prompt_is_answered_as_it_is_written(decode: dict[str, Any]) -> None:
    found = writer(**decode)
    pieces = predicted(found, ["the cat"])
    assert "".join(pieces) == only(found, "the cat").text + "\n"
    assert len(pieces) > 2 or decode.get("search") == "beam"


def test_of_several_prompts_each_text_is_one_line() -> None:
    """And no two texts give the same line."""
    found = writer(samples=2, maximum_length=8, prefix="\\n \n\r")
    lines = "".join(predicted(found, PROMPTS[:3])).split("\n")
    texts = [written.text for samples in found.write(PROMPTS[:3]) for written in samples]
    assert len(lines) == 7
    for line, text in zip(lines, texts):
        assert line.startswith("\\\\n \\n\\r")
        assert "\r" not in line
        assert re.sub(r"\\(.)", lambda found: {"n": "\n", "r": "\r"}.get(found[1], found[1]), line) == text


def test_every_line_of_a_file_is_a_line_too() -> None:
    assert predicted(writer(prefix="\n"), ["the cat"], first=0)[0].startswith("\\n")
    assert predicted(writer(prefix="\n"), ["the cat"], first=1)[0].startswith("\\n")


# looking --------------------------------------------------------------------------------------------------------------
def weights_of(found: TextGenerator, ids: Sequence[int]) -> np.ndarray:
    with probe(found.model) as seen, torch.no_grad():
        found.model(torch.tensor([list(ids)]))
        return torch.stack([seen[name].weights()[0] for name in seen]).numpy()


@pytest.mark.parametrize("prompt", ["the cat", "", "the dog sees the bird.\nthe horse likes the cat. the"])
def test_attention_is_that_of_every_step(prompt: str) -> None:
    """Each row, as the step that wrote the next token saw it, and the last may fill the window."""
    found = writer(search="greedy", stop=("the",), samples=1)
    text, seen = found.attention(prompt)
    before = prompt_ids(found, prompt)
    ids = [*before, *only(writer(search="greedy", maximum_length=min(16, 17 - len(before))), prompt).ids][:WINDOW]
    assert seen.queries == seen.keys == tuple(found.tokenizer.tokens(ids))
    assert seen.layers == ("decoder.0.self", "decoder.1.self")
    np.testing.assert_allclose(seen.weights.sum(-1), 1, atol=1e-5)
    assert not np.triu(seen.weights, 1).any()
    for step in range(1, len(ids) + 1):
        now = weights_of(found, ids[:step])
        np.testing.assert_allclose(seen.weights[:, :, step - 1, :step], now[:, :, -1], atol=1e-5)
    assert found.tokenizer.decode(ids).startswith(found.tokenizer.decode(before))
    assert text


def test_a_probe_sees_the_text_that_was_written() -> None:
    found = writer(search="greedy")
    with probe(found.model) as seen:
        text = found("the cat")
    ids = [*found.tokenizer.encode("the cat"), *only(found, "the cat").ids]
    shown = seen["decoder.1.self"].weights()[0].numpy()
    np.testing.assert_allclose(shown, weights_of(found, ids)[1], atol=1e-5)
    assert text == only(found, "the cat").text


def test_a_language_model_has_one_part() -> None:
    with pytest.raises(UserError, match="--part cross"):
        writer().attention("the cat", "cross")


# how likely -----------------------------------------------------------------------------------------------------------
def test_scores_are_those_of_a_plain_loop() -> None:
    """Every token with a window before it, where the window moves on by one."""
    found = writer()
    texts = [found.tokenizer.encode(text) for text in ("the cat sees the dog.\n" * 4, "horse", "the bird likes the bird.")]
    for ids, scores in zip(texts, found.log_probabilities(texts, stride=1)):
        read = [found.start, *ids]
        for n, aim in enumerate(ids):
            expected = log_probabilities(found, read[max(0, n + 1 - WINDOW) : n + 1])[-1][aim]
            assert scores[n] == pytest.approx(expected.item(), abs=1e-4)
    halves = reference_scores(found.model, texts, start=found.start, window=WINDOW, stride=WINDOW // 2)
    for scores, expected_N in zip(found.log_probabilities(texts), halves):
        np.testing.assert_allclose(scores, expected_N, atol=1e-6)


@pytest.mark.parametrize(("context", "gap"), [("the cat sees the", " "), ("the cat sees ", ""), ("", "")])
def test_choices_are_scored_as_by_a_plain_loop(context: str, gap: str) -> None:
    """A space comes between context and option where neither has one."""
    found, options = writer(), ["dog.", " bird", "zebra!"]
    choice = found.choose(context, options, aside="the")
    spaced = [f"{gap}dog.", " bird", f"{gap}zebra!"]
    for n, option in enumerate(spaced):
        ids, totals = found.tokenizer.encode(option), []
        for before in (found.tokenizer.encode(context), found.tokenizer.encode("the")):
            read = [found.start, *before, *ids]
            scores = log_probabilities(found, read[:-1])[len(before) :][range(len(ids)), ids]
            totals.append(scores.sum().item())
        expected = (totals[0], totals[0] / len(ids), totals[0] / len(option.encode()), totals[0] - totals[1])
        found_scores = (choice.total[n], choice.per_token[n], choice.per_byte[n], choice.above_aside[n])
        assert found_scores == pytest.approx(expected, abs=1e-4)
    assert choice.best("total") != 2  # no zebra was ever seen

"""Keys and values by position: passes over several tokens equal passes over all, and a common prefix is encoded once."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.decode.prefix_cache import PrefixCache, common_prefix, start_with_common_prefix
from regard.families.gpt import GPT
from regard.model.state.protocol import RowCompaction
from tests.decode.models import KINDS, language_model, last, padded, prompts
from tests.decode.searches import greedy

few = settings(max_examples=15)


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_several_tokens_after_a_prompt_equal_the_whole_text(kind: str) -> None:
    model = language_model(kind)
    texts = prompts(4, shortest=3)
    ids_BL, lengths_B = padded(texts)
    cache = PrefixCache(model.start(ids_BL, lengths_B), slots=4, last=63)  # fewer slots than it will need
    new_BL = torch.randint(23, (4, 5), generator=torch.Generator().manual_seed(2))
    x_BLD = cache.append(new_BL, lengths_B)
    for row, text in enumerate(texts):
        whole = torch.tensor([[*text[:-1], *new_BL[row].tolist()]])
        torch.testing.assert_close(x_BLD[row], model.hidden(whole)[0, -5:])


@torch.no_grad()
@pytest.mark.parametrize("kind", ["plain", "window, rotary"])
def test_what_was_written_behind_a_text_is_never_seen(kind: str) -> None:
    """Three tokens that were only proposed, then others in their place, for some rows, after rows have moved."""
    model = language_model(kind)
    texts = prompts(4, shortest=3)
    ids_BL, lengths_B = padded(texts)
    cache = PrefixCache(model.start(ids_BL, lengths_B), slots=32, last=63)
    cache.append(torch.full((4, 3), 9), lengths_B)
    rows = [3, 1]
    cache.compact(RowCompaction.of(rows, torch.device("cpu")))
    new_BL = torch.tensor([[5, 6], [7, 8]])
    both = cache.append(new_BL, lengths_B[rows])
    again = cache.append(new_BL[1:, 1:], lengths_B[rows][1:] + 1, torch.tensor([1]))
    for place, row in enumerate(rows):
        whole = torch.tensor([[*texts[row][:-1], *new_BL[place].tolist()]])
        torch.testing.assert_close(both[place], model.hidden(whole)[0, -2:])
    torch.testing.assert_close(again[0], both[1, -1:])


@given(st.data())
@few
def test_a_common_prefix_changes_nothing(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(KINDS)))
    begin = data.draw(st.lists(st.integers(4, 9), max_size=8))
    texts = prompts(data.draw(st.integers(1, 4)), seed=data.draw(st.integers(0, 99)), longest=6, begin=begin)
    model = language_model(kind)
    ids_BL, lengths_B = padded(texts)
    plain, shared = model.start(ids_BL, lengths_B), start_with_common_prefix(model, ids_BL, lengths_B)
    for expected, found in zip(plain.prompts, shared.prompts):
        for one, other in zip(expected, found):
            for row, words in enumerate(lengths_B.tolist()):
                torch.testing.assert_close(other[row, :, :words], one[row, :, :words])
    options = dict(sos=last(texts), eos=2, limits=[6] * len(texts))
    assert [text.ids for text in greedy(plain, **options)] == [text.ids for text in greedy(shared, **options)]


def test_a_common_prefix_is_encoded_once() -> None:
    model = language_model()
    ids_BL, lengths_B = padded(prompts(8, shortest=3, longest=3, begin=[5] * 20))
    seen = []
    with patch.object(GPT, "start", lambda self, ids, lengths: seen.append(tuple(ids.shape)) or original(self, ids, lengths)):
        start_with_common_prefix(model, ids_BL, lengths_B)
    assert seen == [(1, common_prefix(ids_BL, lengths_B))]
    assert seen[0][1] >= 20


original = GPT.start


@pytest.mark.parametrize(
    ("rows", "lengths", "expected"),
    [
        ([[5, 6, 7], [5, 6, 8]], [3, 3], 2),
        ([[5, 6, 7], [5, 6, 7]], [3, 2], 2),
        ([[5, 6, 7], [5, 6, 7]], [3, 3], 3),
        ([[5, 6], [6, 6]], [2, 2], 0),
        ([[5, 6], [5, 0]], [2, 0], 0),
    ],
)
def test_common_prefixes(rows: list[list[int]], lengths: list[int], expected: int) -> None:
    assert common_prefix(torch.tensor(rows), torch.tensor(lengths)) == expected


def test_a_model_without_keys_is_refused() -> None:
    model = language_model("plain", mixer="favor", position="sinusoidal")
    with pytest.raises(UserError, match=r"model\.mixer=favor keeps no keys and values of single tokens"):
        start_with_common_prefix(model, *padded(prompts(2)))

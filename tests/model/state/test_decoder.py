"""A decoder alone, that reads prompts of several lengths and writes on in several lanes, against whole passes over each text."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.decode.algorithm import CapturedGraphs
from regard.model.attention import KeysValues
from regard.model.block import BlockConfig, Stack
from regard.model.embedding import Embed, VocabularyHead
from regard.model.init import initialise
from regard.model.state.decoder import DecoderState, EncodedPrompt
from regard.model.state.kv_cache import Prompt, round_to_stride
from regard.model.state.protocol import RowCompaction
from regard.model.visibility import causal
from regard.model.visibility.parse import parse_visibility
from tests.decode.searches import greedy
from tests.decode.tape import TapeRecorder

VOCABULARY, LONGEST = 19, 64


class Alone(nn.Module):
    """The least that writes: embed, blocks, head."""

    def __init__(self, visibility: str = "full") -> None:
        super().__init__()
        self.visibility = causal & parse_visibility(visibility)
        self.embed = Embed(VOCABULARY, 16, position="learned", maximum_length=LONGEST, dropout=0.0, scaled=False)
        self.decoder = Stack(BlockConfig(width=16, heads=2, feedforward=24, dropout=0.0, norm_placement="pre"), 2, "decoder")
        self.head = VocabularyHead(16, VOCABULARY)
        initialise(self, 5)

    def forward(self, ids_BL: Tensor, caches: list[Prompt] | None = None) -> Tensor:
        length = ids_BL.shape[1]
        return self.head(
            self.decoder(self.embed(ids_BL), self.visibility.over(length, length, device=ids_BL.device), caches=caches)
        )

    @torch.no_grad()
    def start(self, prompt_BL: Tensor, lengths_B: Tensor) -> EncodedPrompt:
        """The last word of a prompt is the first to be stepped."""
        prompts = [Prompt() for _ in self.decoder.blocks]
        self(prompt_BL, prompts)
        return EncodedPrompt(self, self.embed, [KeysValues(*p.kv_2SHPK) for p in prompts], lengths_B - 1)

    def step(self, ids_SW: Tensor, past: DecoderState) -> Tensor:
        x_SWD = self.embed(ids_SW, past.positions_SW)
        return self.head(self.decoder(x_SWD, past.view(self.visibility), caches=past.caches))


def prompts(lengths: list[int], seed: int = 0) -> tuple[Tensor, Tensor]:
    drawn = torch.randint(VOCABULARY, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    return drawn, torch.tensor(lengths)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("visibility", ["full", "window(4)"])
def test_lanes_go_on_from_prompts_of_several_lengths(visibility: str, fixed: bool) -> None:
    model, lanes, tokens, draw = Alone(visibility).eval(), 3, 20, torch.Generator().manual_seed(1)
    prompt_BL, lengths_B = prompts([9, 1, 17, 4])
    read = model.start(prompt_BL, lengths_B)
    state = read.make_state(4, lanes, tokens, fixed=fixed)
    state.load(read, [tokens] * 4)
    texts = [[row[:length].tolist()] * lanes for row, length in zip(prompt_BL, lengths_B)]
    for t in range(tokens):
        if t in (5, 11):
            kept = {5: [0, 3, 2], 11: [2]}[t]
            state.compact(RowCompaction.of(kept, prompt_BL.device))
            texts = [texts[row] for row in kept]
        state.grow(1)
        logits_SWV = state.step(torch.tensor([[text[-1] for text in row] for row in texts]))
        for row, lanes_of in zip(logits_SWV, texts):
            torch.testing.assert_close(row, model(torch.tensor(lanes_of))[:, -1], atol=2e-5, rtol=1e-4)
        parents_SW = torch.randint(lanes, (len(texts), lanes), generator=draw)
        state.select(parents_SW)
        words = torch.randint(VOCABULARY, (len(texts), lanes), generator=draw).tolist()
        texts = [[[*row[p], w] for p, w in zip(*both)] for row, both in zip(texts, zip(parents_SW.tolist(), words))]


def whole_passes(model: Alone, prompt: list[int], eos: int, limit: int) -> list[int]:
    text = list(prompt)
    while len(text) < len(prompt) + limit and (len(text) == len(prompt) or text[-1] != eos):
        text.append(int(model(torch.tensor([text]))[0, -1].argmax()))
    return [word for word in text[len(prompt) :] if word != eos]


@pytest.mark.parametrize("recorded", [False, True])
def test_greedy_search_continues_prompts_up_to_the_last_position(recorded: bool) -> None:
    """A sentence that is done waits among others that go on, and must not run out of learned positions meanwhile."""
    model = Alone().eval()
    sessions = CapturedGraphs(TapeRecorder()) if recorded else None
    for seed, (lengths, limits) in enumerate([([60, 3, 30], [5, 50, 7]), ([1, 2, 50], [64, 3, 2]), ([1], [9])]):
        prompt_BL, lengths_B = prompts(lengths, seed)
        last_B = prompt_BL[range(len(lengths)), lengths_B - 1]
        found = greedy(model.start(prompt_BL, lengths_B), sos=last_B, eos=3, limits=limits, sessions=sessions)
        rows = [row[:length] for row, length in zip(prompt_BL.tolist(), lengths)]
        assert [one.ids for one in found] == [whole_passes(model, row, 3, limit) for row, limit in zip(rows, limits)]


def test_a_prompt_that_leaves_too_few_positions_is_told() -> None:
    model = Alone().eval()
    with pytest.raises(UserError, match="65 tokens does not fit the 64 learned positions"):
        greedy(model.start(*prompts([61, 3])), sos=0, eos=3, limits=[5, 5])


def test_sizes_are_few_and_at_most_a_quarter_too_large() -> None:
    sizes = [round_to_stride(count) for count in range(1, 4097)]
    assert all(count <= size < max(count + 16, 1.25 * count) for count, size in enumerate(sizes, 1))
    assert sizes == sorted(sizes)
    assert all(size % 16 == 0 for size in sizes)
    assert len(set(sizes)) == 8 + 4 * 5

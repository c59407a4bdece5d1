"""The last layer's choice is the model's, and each layer's is what the head makes of its vectors, whichever norm there is."""

import numpy as np
import pytest
import torch

from regard.core.errors import UserError
from regard.families.gpt import GPT, GPTConfig
from regard.lens.analyses.logit_lens import logit_lens
from regard.lens.result import html
from regard.lens.subject import Subject
from tests.lens.some_subjects import side, subject


@pytest.mark.parametrize("name", ["translator", "writer", "filler"])
def test_the_last_layer_says_what_the_model_says(name):
    found = subject(name)
    result = logit_lens(found)
    with torch.no_grad():
        top = found.forward(1)[0].softmax(-1).max(-1)
    assert list(result.choices[-1]) == [found.choices(int(i)) for i in top.indices]
    np.testing.assert_allclose(result.chances_NL[-1], top.values.numpy(), atol=1e-5)
    np.testing.assert_allclose(result.final_NL[-1], result.chances_NL[-1], atol=1e-6)
    stack = getattr(found.model, result.stack)
    assert len(result.choices) == len(stack.blocks) + 1


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_layer_is_a_model_that_stops_there(norm):
    """A stack with fewer blocks and the same weights is what the lens says of that layer."""
    config = GPTConfig(width=16, heads=2, feedforward=24, layers=3, dropout=0.0, norm_placement=norm, maximum_length=9)
    model = GPT(config, 12, seed=1).eval()
    ids = torch.randint(0, 12, (1, 7), generator=torch.Generator().manual_seed(0))
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.5, generator=torch.Generator().manual_seed(p.numel()))
    norm_of = model.decoder.norm
    head = model.head if norm_of is None else lambda x: model.head(norm_of(x))
    found = Subject(
        model=model, title="t", sides={"decoder": side(*"abcdefg")}, forward=lambda copies: model(ids.expand(copies, -1)),
        targets_L=ids[0], outputs=side(*"abcdefg"), choices=str, head=head,
    )  # fmt: skip
    result = logit_lens(found)
    blocks = model.decoder.blocks
    for depth in range(4):
        model.decoder.blocks = blocks[:depth]
        with torch.no_grad():
            chances = model(ids)[0].softmax(-1).max(-1)
        assert list(result.choices[depth]) == [str(int(i)) for i in chances.indices]
        np.testing.assert_allclose(result.chances_NL[depth], chances.values.numpy(), atol=1e-5)


@pytest.mark.parametrize("name", ["labeller", "tagger", "answerer"])
def test_who_says_no_words_is_refused(name):
    with pytest.raises(UserError, match="says no words"):
        logit_lens(subject(name))


def test_it_tells_and_draws():
    result = logit_lens(subject("translator"))
    decided = result.decided()
    for place, layer in enumerate(decided):
        assert all(row[place] == result.choices[-1][place] for row in result.choices[layer:])
        assert layer == 0 or result.choices[layer - 1][place] != result.choices[-1][place]
    assert len(result.lines()) == 4 + len(result.tokens)
    assert result.as_dict()["decided"] == decided
    assert "what each layer would choose" in html(result)

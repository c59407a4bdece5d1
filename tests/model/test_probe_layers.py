"""What is seen of a stack's layers: transformers' hidden states, and nothing once nobody looks."""

from __future__ import annotations

import pytest
import torch

from regard.families.bert import BERT, BERTConfig
from regard.families.gpt import GPT, GPTConfig
from regard.model.probe import layers
from tests.families.bert_folder import opened, theirs
from tests.families.public_folder import small_gpt

IDS_BL = torch.randint(4, 90, (3, 9), generator=torch.Generator().manual_seed(0))


@torch.no_grad()
@pytest.mark.parametrize("kind", ["bert", "distilbert", "electra"])
def test_a_berts_layers_are_the_hidden_states_of_transformers(kind: str) -> None:
    name = {"bert": "BertModel", "distilbert": "DistilBertModel", "electra": "ElectraModel"}[kind]
    peer = theirs(kind, name)
    model, lengths_B = opened(peer), torch.tensor([9, 4, 7])
    mask_BL = torch.arange(9) < lengths_B[:, None]
    with layers(model.encoder) as seen:
        model.hidden(IDS_BL, lengths_B)
    expected = peer(input_ids=IDS_BL, attention_mask=mask_BL.long(), output_hidden_states=True).hidden_states
    assert len(seen) == len(expected) == 3
    for ours, other in zip(seen, expected):
        assert other.std() > 0.1
        torch.testing.assert_close(ours[mask_BL], other[mask_BL], atol=1e-4, rtol=0)


@torch.no_grad()
def test_a_gpts_last_layer_is_after_its_norm() -> None:
    model = small_gpt()
    with layers(model.decoder) as seen:
        out_BLD = model.hidden(IDS_BL)
    assert len(seen) == model.config.layers + 1
    assert torch.equal(seen[0], model.embed(IDS_BL))
    assert torch.equal(seen[-1], out_BLD)
    x_BLD = seen[-2]  # the residual stream, before the last block
    with layers(model.decoder) as again:
        model.hidden(IDS_BL)
    assert torch.equal(again[-2], x_BLD)
    assert not torch.allclose(seen[-1].mean(-1), x_BLD.mean(-1), atol=1e-3)


@torch.no_grad()
def test_only_the_latest_pass_is_kept_and_no_hook_stays() -> None:
    model = BERT(BERTConfig(width=8, heads=2, layers=3, feedforward=16), 90).eval()
    with layers(model.encoder) as seen:
        model.hidden(IDS_BL, torch.tensor([9, 9, 9]))
        model.hidden(IDS_BL[:1], torch.tensor([9]))
    assert [len(x_BLD) for x_BLD in seen] == [1] * 4
    model.hidden(IDS_BL, torch.tensor([9, 9, 9]))
    assert [len(x_BLD) for x_BLD in seen] == [1] * 4
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_hooks_go_when_the_pass_fails() -> None:
    model = GPT(GPTConfig(width=8, heads=2, layers=2, feedforward=16, maximum_length=4), 90)
    with pytest.raises(Exception, match="4"), layers(model.decoder):
        model.hidden(IDS_BL)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())

"""A minGPT that sorts three letters, as another program stored it: each of its activations comes out of ours.

Karpathy's gpt-nano with the partial results of one pass over three sequences. It needs the folder `weights/gpt_nano_sort` under
$REGARD_DATA. Dims: B batch, L length, D width, H heads, K head width, F feed-forward width, V vocabulary, E three widths.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.families.gpt import GPT
from regard.interop.huggingface.config import understand
from regard.interop.huggingface.gpt import GPT2
from regard.interop.huggingface.tensors import from_public
from regard.model.probe import probe

FOLDER = Path(os.environ.get("REGARD_DATA", ""), "weights", "gpt_nano_sort")
MODEL, PARTIALS = FOLDER / "gpt-nano-sort-model.json.gz", FOLDER / "gpt-nano-sort-t0-partials.json.gz"

pytestmark = pytest.mark.skipif(
    "REGARD_DATA" not in os.environ or not PARTIALS.is_file(), reason="needs weights/gpt_nano_sort under $REGARD_DATA"
)


def stored(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        raw = json.load(file)
    config = raw.pop("config")
    return config, {name: _tensor(part) for name, part in raw.items()}


def _tensor(part: dict[str, Any]) -> Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(part["data"])), dtype=torch.float32).reshape(part["shape"])


def built() -> GPT:
    """By GPT-2's tables; but minGPT stores no matrix transposed, and its head is not the embedding."""
    said, tensors = stored(MODEL)
    keys = {key: said[key] for key in ("n_layer", "n_head", "n_embd", "vocab_size", "resid_pdrop", "embd_pdrop", "attn_pdrop")}
    config, vocabulary, *_ = understand({**keys, "n_positions": said["block_size"]}, GPT2, MODEL.name)
    head = tensors.pop("lm_head.weight")
    turned = {
        name: tensor.T if name.endswith(("attn.weight", "proj.weight", "fc.weight")) else tensor
        for name, tensor in tensors.items()
    }
    model = GPT(config, vocabulary)
    model.load_state_dict(from_public(turned, GPT2, config, vocabulary, MODEL.name))
    model.head.project.weight = nn.Parameter(head)
    return model.eval()


def recorded(model: GPT, ids_BL: Tensor) -> dict[str, Tensor]:
    """What the pass leaves behind, under the names of the file; all but the last are of the first block."""
    first, third = model.decoder.blocks[0], model.decoder.blocks[2]
    outputs: dict[str, Tensor] = {}
    watched: dict[str, nn.Module] = {
        "tok_emb": model.embed.tokens,
        "x": model.embed,
        "ln1": first["self"].norm,
        "qkv": first.self_attention.project,
        "yProj": first.self_attention.out,
        "attnResid": first["self"],
        "ln2": first["ffn"].norm,
        "fc": first.feedforward.expand,
        "mlp": first.feedforward,
        "mlpResid": first["ffn"],
        "block0": first,
        "block1": model.decoder.blocks[1],
        "block2": third,
        "ln_f": model.decoder.get_submodule("norm"),
        "lm_head": model.head,
    }
    inputs = {"y": first.self_attention.out, "gelu": first.feedforward.contract}
    hooks = [
        module.register_forward_hook(lambda _, __, out, name=name: outputs.update({name: out}))
        for name, module in watched.items()
    ]
    hooks += [
        module.register_forward_pre_hook(lambda _, args, name=name: outputs.update({name: args[0]}))
        for name, module in inputs.items()
    ]
    with torch.no_grad(), probe(model) as seen:
        logits_BLV = model(ids_BL)
    for hook in hooks:
        hook.remove()
    look = seen["decoder.0.self"]
    scores_BHLL = look.q_BHLK @ look.k_BHMK.mT * look.q_BHLK.shape[-1] ** -0.5
    hidden_LL = torch.ones(ids_BL.shape[1], ids_BL.shape[1]).triu(1).bool()
    outputs["pos_emb"] = model.embed.positions(torch.arange(ids_BL.shape[1]))[None]
    outputs |= {"q": look.q_BHLK, "k": look.k_BHMK, "v": look.v_BHMK}
    outputs |= {"att": scores_BHLL.masked_fill(hidden_LL, -torch.inf), "attSm": look.weights(), "probs": logits_BLV.softmax(-1)}
    return outputs


def test_every_stored_activation_is_ours() -> None:
    _, expected = stored(PARTIALS)
    ids_BL = expected.pop("idx").long()
    found = recorded(built(), ids_BL)
    assert found.keys() == expected.keys()
    numbers = 0
    for name, theirs in expected.items():
        assert found[name].shape == theirs.shape, name
        torch.testing.assert_close(found[name], theirs, atol=1e-4, rtol=0, msg=f"{name} differs")
        numbers += theirs.numel()
    assert (len(expected), numbers) == (24, 45_672)


def test_it_sorts() -> None:
    """What it was trained for: after six letters come the same six in order."""
    model = built()
    letters_BL = torch.randint(3, (64, 6), generator=torch.Generator().manual_seed(0))
    text_BL = letters_BL
    with torch.no_grad():
        for _ in range(6):
            text_BL = torch.cat([text_BL, model(text_BL)[:, -1].argmax(-1, keepdim=True)], 1)
    assert torch.equal(text_BL[:, 6:], letters_BL.sort(dim=1).values)

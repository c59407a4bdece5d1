"""JoeyNMT with our weights, in an environment of its own (`make peers`), where `joeynmt_there` runs its classes and its search.

Its layers compute what ours do with `layer_norm: post`; its positions interleave sine and cosine as ours. Two things differ and
are set alike: its norms add 1e-6 to the variance where ours add 1e-5, and its special tokens have other numbers.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import distributions
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from benchmarks.peers import joeynmt_recurrent
from benchmarks.peers.apart import ROOT, Abroad
from regard.data.batching.pairs import Batch
from regard.families.encoder_decoder import EncoderDecoder
from regard.families.recurrent import Recurrent
from regard.families.transformer import Transformer
from regard.model.attention import Attention
from regard.model.block import Block

HOME = ROOT / ".peers" / "joeynmt"
LONGEST = 5000  # positions that JoeyNMT keeps
Named = Iterator[tuple[str, Tensor]]


def ready() -> bool:
    return (HOME / ".ready").is_file()


def remark() -> str:
    """For the setting of a result, and printed where somebody may be waiting for JoeyNMT in vain."""
    if ready():
        return "JoeyNMT runs in a process and an environment of its own."
    left_out = "JoeyNMT was left out: its environment was not there ('make peers' makes it)."
    print(left_out)
    return left_out


def version() -> dict[str, str]:
    """Of what is installed there, which is not what is installed here."""
    folders = [str(folder) for folder in HOME.glob("lib/python*/site-packages")]
    return {"joeynmt": next(iter(distributions(name="joeynmt", path=folders))).version} if ready() else {}


def translator(ours: Transformer) -> Abroad:
    """ask("translate", source rows, beam, output tokens): the best of each row, all of that length."""
    return _start(ours, "translate", [])


def trainer(ours: EncoderDecoder, batches: Sequence[Batch], bf16: bool) -> Abroad:
    """ask("loss"): of the first batch, in float32; ask("epoch"): a step for every batch."""
    return _start(ours, "train-bf16" if bf16 else "train", batches)


def _start(ours: EncoderDecoder, task: str, batches: Sequence[Batch]) -> Abroad:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings, weights = _told(ours)
        (folder / "model.json").write_text(json.dumps(settings), "utf-8")
        save_file(weights, folder / "model.safetensors")
        save_file(
            {key: tensor for n, batch in enumerate(batches) for key, tensor in _pairs(n, batch)}, folder / "pairs.safetensors"
        )
        return Abroad(HOME / "bin" / "python", "benchmarks.peers.joeynmt_there", task, name, str(torch.get_num_threads()))


def _told(ours: EncoderDecoder) -> tuple[dict[str, object], dict[str, Tensor]]:
    """Settings and weights."""
    if isinstance(ours, Recurrent):
        return joeynmt_recurrent.settings(ours), dict(joeynmt_recurrent.weights(ours))
    return _settings(ours), dict(_weights(ours))


def _settings(ours: Transformer) -> dict[str, object]:
    c, (encoder_layers, decoder_layers) = ours.config, ours.config.depth
    assert (c.norm_placement, c.tie, c.join, c.activation) == ("post", "all", "add", "relu")
    layer = {"hidden_size": c.width, "ff_size": c.feedforward, "num_heads": c.heads, "layer_norm": "post"}
    layer |= {"dropout": c.dropout, "emb_dropout": c.dropout}
    return {
        "encoder": {**layer, "num_layers": encoder_layers},
        "decoder": {**layer, "num_layers": decoder_layers},
        "words": ours.source.tokens.num_embeddings,
        "norm_epsilon": c.norm_epsilon,
    }


def _weights(ours: Transformer) -> Named:
    """By JoeyNMT's names; embeddings of both sides and the output layer are one matrix, stored once."""
    yield "src_embed.lut.weight", ours.source.tokens.weight.detach()
    positions = ours.source.positions(torch.arange(LONGEST))
    assert positions is not None
    for side, stack in (("encoder", ours.encoder), ("decoder", ours.decoder)):
        yield f"{side}.pe.pe", positions[None].clone()
        for n, block in enumerate(stack.blocks):
            yield from _block(f"{side}.layers.{n}", block)


def _block(name: str, block: Block) -> Named:
    if block.cross_attention is None:
        yield from _attention(f"{name}.src_src_att", block.self_attention)
        yield from _layer(f"{name}.layer_norm", block["self"].norm)
    else:
        yield from _attention(f"{name}.trg_trg_att", block.self_attention)
        yield from _layer(f"{name}.x_layer_norm", block["self"].norm)
        yield from _attention(f"{name}.src_trg_att", block.cross_attention)
        yield from _layer(f"{name}.dec_layer_norm", block["cross"].norm)
    yield from _layer(f"{name}.feed_forward.layer_norm", block["ffn"].norm)
    yield from _layer(f"{name}.feed_forward.pwff_layer.0", block.feedforward.expand)
    yield from _layer(f"{name}.feed_forward.pwff_layer.3", block.feedforward.contract)


def _attention(name: str, ours: Attention) -> Named:
    """Queries, keys and values in one matrix; looking back, queries in one of their own."""
    layers = [ours.project] if ours.query is None else [ours.query, ours.project]
    for kind in ("weight", "bias"):
        parts = torch.cat([layer.state_dict()[kind] for layer in layers]).chunk(3)
        for part, of in zip(parts, "qkv"):
            yield f"{name}.{of}_layer.{kind}", part.clone()
    yield from _layer(f"{name}.output_layer", ours.out)


def _layer(name: str, ours: nn.Module) -> Named:
    for kind, tensor in ours.state_dict().items():
        yield f"{name}.{kind}", tensor


def _pairs(number: int, batch: Batch) -> Named:
    """Sources as they are; targets from <sos> to <eos>, which JoeyNMT cuts itself."""
    yield f"source.{number}", batch.source_BM
    yield f"target.{number}", torch.cat([batch.target_in_BL[:, :1], batch.target_out_BL], 1)

"""Our recurrent models by JoeyNMT's names. Its decoder is Luong's, whatever the score: it takes the word, then looks.

Two things are set alike. Its attention vector takes [state; context] and ours [context; state], so columns are turned over. It
begins all layers, and both parts of an LSTM, with one vector; ours has a projection for each, so all are made the first one.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.families.recurrent import Recurrent
from regard.model.recurrent.cells import own
from regard.model.recurrent.decoders import Luong

KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def begin_alike(ours: Recurrent) -> None:
    """All that a decoder carries begins with the same vector, as in JoeyNMT."""
    width = ours.config.width
    with torch.no_grad():
        for part in (ours.begin.weight, ours.begin.bias):
            part.copy_(part[:width].repeat(len(part) // width, *[1] * (part.dim() - 1)))


def settings(ours: Recurrent) -> dict[str, object]:
    c = ours.config
    assert (c.attention, c.bidirectional, c.tie) == ("luong", True, "all")
    layer = {"rnn_type": c.cell, "num_layers": c.layers, "emb_size": c.width, "dropout": c.dropout, "emb_dropout": c.dropout}
    attention = {"bilinear": "luong", "additive": "bahdanau"}[c.score]
    return {
        "encoder": {**layer, "hidden_size": c.width // 2, "bidirectional": True},
        "decoder": {**layer, "hidden_size": c.width, "attention": attention, "input_feeding": c.input_feeding},
        "words": ours.source.tokens.num_embeddings,
    }


def weights(ours: Recurrent) -> Iterator[tuple[str, Tensor]]:
    decoder, encoder, width = ours.decoder, ours.encoder, ours.config.width
    assert isinstance(decoder, Luong)
    assert encoder.back is not None
    yield "src_embed.lut.weight", ours.source.tokens.weight.detach()
    for n, (ahead, back, layer) in enumerate(zip(encoder.ahead, encoder.back, decoder.recurrence.layers)):
        for kind, *three in zip(KINDS, own(ahead), own(back), own(layer)):
            names = (f"encoder.rnn.{kind}_l{n}", f"encoder.rnn.{kind}_l{n}_reverse", f"decoder.rnn.{kind}_l{n}")
            yield from ((name, tensor.detach()) for name, tensor in zip(names, three))
    yield "decoder.att_vector_layer.weight", decoder.combine.weight.detach().roll(width, 1)
    yield "decoder.att_vector_layer.bias", decoder.combine.bias.detach()
    yield "decoder.bridge_layer.weight", ours.begin.weight.detach()[:width].clone()
    yield "decoder.bridge_layer.bias", ours.begin.bias.detach()[:width].clone()
    aligner = decoder.aligner
    assert aligner.keys is not None
    yield "decoder.attention.key_layer.weight", aligner.keys.weight.detach()
    if aligner.query is None:
        return
    yield "decoder.attention.query_layer.weight", aligner.query.weight.detach()
    yield "decoder.attention.energy_layer.weight", aligner.mixer.weight_K.detach()[None]  # type: ignore[attr-defined]

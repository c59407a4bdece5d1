"""torch.nn.Transformer with our weights, embeddings and output layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.families.transformer import Transformer
from regard.model.attention import Attention
from regard.model.block import Block
from regard.text.specials import PAD

LONGEST = 512


class TorchTransformer(nn.Module):
    def __init__(self, ours: Transformer) -> None:
        super().__init__()
        c, (encoder_layers, decoder_layers) = ours.config, ours.config.depth
        vocabulary = ours.source.tokens.num_embeddings
        self.tokens, self.scale = nn.Embedding(vocabulary, c.width), c.width**0.5
        positions = ours.source.positions(torch.arange(LONGEST, device=ours.source.tokens.weight.device))
        assert positions is not None
        self.register_buffer("positions", positions.clone())
        self.body = nn.Transformer(
            c.width, c.heads, encoder_layers, decoder_layers, c.feedforward, c.dropout, c.activation, batch_first=True
        )
        self.body.encoder.norm = self.body.decoder.norm = None
        self.output = nn.Linear(c.width, vocabulary, bias=False)
        self.output.weight = self.tokens.weight
        self.tokens.weight.data.copy_(ours.source.tokens.weight.data)
        for theirs, mine in ((self.body.encoder, ours.encoder), (self.body.decoder, ours.decoder)):
            for layer, block in zip(theirs.layers, mine.blocks):
                _copy_block(layer, block)

    def forward(self, source_BM: Tensor, target_BL: Tensor) -> Tensor:
        padding = source_BM == PAD
        causal = nn.Transformer.generate_square_subsequent_mask(target_BL.shape[1], device=target_BL.device)
        source, target = (self.tokens(ids) * self.scale + self.positions[: ids.shape[1]] for ids in (source_BM, target_BL))
        x_BLD = self.body(
            source, target, tgt_mask=causal, src_key_padding_mask=padding, memory_key_padding_mask=padding, tgt_is_causal=True
        )
        return self.output(x_BLD)


@torch.no_grad()
def _copy_block(layer: nn.Module, block: Block) -> None:
    _copy_attention(layer.self_attn, block.self_attention)
    if block.cross_attention is not None:
        _copy_attention(layer.multihead_attn, block.cross_attention)
        layer.norm1.load_state_dict(block["self"].norm.state_dict())
        layer.norm2.load_state_dict(block["cross"].norm.state_dict())
        layer.norm3.load_state_dict(block["ffn"].norm.state_dict())
    else:
        layer.norm1.load_state_dict(block["self"].norm.state_dict())
        layer.norm2.load_state_dict(block["ffn"].norm.state_dict())
    layer.linear1.load_state_dict(block.feedforward.expand.state_dict())
    layer.linear2.load_state_dict(block.feedforward.contract.state_dict())


def _copy_attention(theirs: nn.MultiheadAttention, ours: Attention) -> None:
    parts = [ours.project] if ours.query is None else [ours.query, ours.project]
    theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.out.state_dict())

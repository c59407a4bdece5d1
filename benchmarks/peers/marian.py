"""Hugging Face's Marian with our weights: the same post-norm Transformer, so that outputs can be compared before times are."""

from __future__ import annotations

import torch
from torch import nn
from transformers import MarianConfig, MarianMTModel

from regard.families.transformer import Transformer
from regard.model.attention import Attention
from regard.model.block import Block
from regard.text.specials import EOS, PAD, SOS

LONGEST = 512


def marian(ours: Transformer) -> MarianMTModel:
    c, vocabulary = ours.config, ours.source.tokens.num_embeddings
    assert c.norm_placement == "post"
    assert c.tie == "all"
    encoder_layers, decoder_layers = c.depth
    config = MarianConfig(
        vocab_size=vocabulary,
        d_model=c.width,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        encoder_attention_heads=c.heads,
        decoder_attention_heads=c.heads,
        encoder_ffn_dim=c.feedforward,
        decoder_ffn_dim=c.feedforward,
        activation_function=c.activation,
        dropout=c.dropout,
        scale_embedding=True,
        max_position_embeddings=LONGEST,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=SOS,
        forced_eos_token_id=None,
        attn_implementation="sdpa",
    )
    theirs = MarianMTModel(config).eval()
    theirs.generation_config.bad_words_ids = None
    body = theirs.model
    body.shared.weight.data.copy_(ours.source.tokens.weight.data)
    positions = ours.source.positions(torch.arange(LONGEST, device=ours.source.tokens.weight.device))
    assert positions is not None
    for side, stack in ((body.encoder, ours.encoder), (body.decoder, ours.decoder)):
        side.embed_positions.weight.data.copy_(positions)
        for layer, block in zip(side.layers, stack.blocks):
            _copy_block(layer, block)
    theirs.tie_weights()
    theirs.final_logits_bias.zero_()
    return theirs


def _copy_block(layer: nn.Module, block: Block) -> None:
    _copy_attention(layer.self_attn, block.self_attention)
    layer.self_attn_layer_norm.load_state_dict(block["self"].norm.state_dict())
    if block.cross_attention is not None:
        _copy_attention(layer.encoder_attn, block.cross_attention)
        layer.encoder_attn_layer_norm.load_state_dict(block["cross"].norm.state_dict())
    layer.fc1.load_state_dict(block.feedforward.expand.state_dict())
    layer.fc2.load_state_dict(block.feedforward.contract.state_dict())
    layer.final_layer_norm.load_state_dict(block["ffn"].norm.state_dict())


def _copy_attention(theirs: nn.Module, ours: Attention) -> None:
    shared = [theirs.k_proj, theirs.v_proj]
    if ours.query is not None:
        theirs.q_proj.load_state_dict(ours.query.state_dict())
    else:
        shared = [theirs.q_proj, *shared]
    for part, weight, bias in zip(shared, ours.project.weight.data.split(ours.width), ours.project.bias.data.split(ours.width)):
        part.weight.data.copy_(weight)
        part.bias.data.copy_(bias)
    theirs.out_proj.load_state_dict(ours.out.state_dict())

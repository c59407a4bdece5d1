"""Hugging Face's GPT-2 with our weights."""

from __future__ import annotations

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from regard.families.gpt import GPT


@torch.no_grad()
def gpt2(ours: GPT) -> GPT2LMHeadModel:
    c = ours.config
    config = GPT2Config(
        vocab_size=ours.embed.tokens.num_embeddings,
        n_positions=c.maximum_length,
        n_embd=c.width,
        n_layer=c.layers,
        n_head=c.heads,
        n_inner=c.feedforward,
        resid_pdrop=c.dropout,
        embd_pdrop=c.dropout,
        attn_pdrop=c.attention_dropout,
        layer_norm_epsilon=c.norm_epsilon,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation="sdpa",
    )
    theirs = GPT2LMHeadModel(config)
    body = theirs.transformer
    body.wte.weight.copy_(ours.embed.tokens.weight)
    body.wpe.weight.copy_(ours.embed.positions.scheme.table.weight)
    body.ln_f.load_state_dict(ours.decoder.norm.state_dict())
    for layer, block in zip(body.h, ours.decoder.blocks):
        layer.ln_1.load_state_dict(block["self"].norm.state_dict())
        layer.ln_2.load_state_dict(block["ffn"].norm.state_dict())
        pairs = [
            (layer.attn.c_attn, block.self_attention.project),
            (layer.attn.c_proj, block.self_attention.out),
            (layer.mlp.c_fc, block.feedforward.expand),
            (layer.mlp.c_proj, block.feedforward.contract),
        ]
        for conv, linear in pairs:
            conv.weight.copy_(linear.weight.T)
            conv.bias.copy_(linear.bias)
    theirs.tie_weights()
    return theirs.to(ours.embed.tokens.weight.device)

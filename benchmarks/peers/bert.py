"""Hugging Face's BERT for masked words, with our weights."""

from __future__ import annotations

import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM

from regard.families.bert import BERT


@torch.no_grad()
def bert(ours: BERT) -> BertForMaskedLM:
    c = ours.config
    config = BertConfig(
        vocab_size=ours.embed.tokens.num_embeddings,
        hidden_size=c.width,
        num_hidden_layers=c.layers,
        num_attention_heads=c.heads,
        intermediate_size=c.feedforward,
        hidden_dropout_prob=c.dropout,
        attention_probs_dropout_prob=c.attention_dropout,
        max_position_embeddings=c.maximum_length,
        type_vocab_size=c.segments,
        layer_norm_eps=c.norm_epsilon,
        attn_implementation="sdpa",
    )
    theirs = BertForMaskedLM(config)
    embeddings = theirs.bert.embeddings
    embeddings.word_embeddings.weight.copy_(ours.embed.tokens.weight)
    embeddings.position_embeddings.weight.copy_(ours.embed.positions.scheme.table.weight)
    embeddings.token_type_embeddings.weight.copy_(ours.embed.segments.weight)
    embeddings.LayerNorm.load_state_dict(ours.embed.norm.state_dict())
    for layer, block in zip(theirs.bert.encoder.layer, ours.encoder.blocks):
        own = layer.attention.self
        weights, biases = block.self_attention.project.weight.split(c.width), block.self_attention.project.bias.split(c.width)
        for part, weight, bias in zip((own.query, own.key, own.value), weights, biases):
            part.weight.copy_(weight)
            part.bias.copy_(bias)
        _same(layer.attention.output.dense, block.self_attention.out)
        _same(layer.attention.output.LayerNorm, block["self"].norm)
        _same(layer.intermediate.dense, block.feedforward.expand)
        _same(layer.output.dense, block.feedforward.contract)
        _same(layer.output.LayerNorm, block["ffn"].norm)
    transform, before = theirs.cls.predictions.transform, ours.head.before
    _same(transform.dense, before[0])
    _same(transform.LayerNorm, before[2])
    theirs.cls.predictions.decoder.bias.copy_(ours.head.project.bias)
    theirs.tie_weights()
    return theirs.to(ours.embed.tokens.weight.device)


def _same(theirs: nn.Module, ours: nn.Module) -> None:
    theirs.load_state_dict(ours.state_dict())

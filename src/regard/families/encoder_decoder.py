"""Models that read one text and write another, by their settings: what a translator may be made of."""

from __future__ import annotations

from regard.families import hran, recurrent, transformer
from regard.families.hran import HRAN, HRANConfig
from regard.families.recurrent import Recurrent, RecurrentConfig
from regard.families.transformer import Transformer, TransformerConfig
from regard.model.flops import Part

EncoderDecoder = Transformer | Recurrent | HRAN
EncoderDecoderConfig = TransformerConfig | RecurrentConfig | HRANConfig


def encoder_decoder(config: EncoderDecoderConfig, source: int, target: int, seed: int = 0) -> EncoderDecoder:
    """For vocabularies of these sizes."""
    if isinstance(config, RecurrentConfig):
        return Recurrent(config, source, target, seed)
    if isinstance(config, HRANConfig):
        return HRAN(config, source, target, seed)
    return Transformer(config, source, target, seed)


def count(config: EncoderDecoderConfig, source_vocabulary: int, target_vocabulary: int, source: int, target: int) -> Part:
    """Its tree, with the operations of one pair of these lengths."""
    if isinstance(config, RecurrentConfig):
        return recurrent.count(config, source_vocabulary, target_vocabulary, source, target)
    if isinstance(config, HRANConfig):
        return hran.count(config, source_vocabulary, target_vocabulary, source, target)
    return transformer.count(config, source_vocabulary, target_vocabulary, source, target)

"""Families only choose parts. Their settings, by the name a recipe uses; each is imported with its model, when it is used."""

from __future__ import annotations

from typing import Any

from regard.core.registry import LazyRegistry

FAMILIES = LazyRegistry[type[Any]](
    {
        "transformer": "regard.families.transformer:TransformerConfig",
        "gpt": "regard.families.gpt:GPTConfig",
        "bert": "regard.families.bert:BERTConfig",
        "electra": "regard.families.electra:ELECTRAConfig",
        "elmo": "regard.families.elmo:ELMoConfig",
        "encoder": "regard.families.encoder:EncoderConfig",
        "recurrent": "regard.families.recurrent:RecurrentConfig",
        "hierarchical": "regard.families.han:HANConfig",
        "hran": "regard.families.hran:HRANConfig",
        "words": "regard.families.word2vec:Word2VecConfig",
        "captioner": "regard.families.captioner:CaptionerConfig",
    }
)

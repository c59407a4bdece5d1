"""Training objectives: the settings class of each, by the name in a recipe, which is its module's; imported when it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from regard.core.registry import LazyRegistry

if TYPE_CHECKING:
    from regard.objectives.base import Objective

OBJECTIVES = LazyRegistry[type[Any]](
    {
        "seq2seq": "regard.objectives.seq2seq:Seq2SeqConfig",
        "denoising": "regard.objectives.denoising:DenoisingConfig",
        "contrastive": "regard.objectives.contrastive:ContrastiveConfig",
        "causal_lm": "regard.objectives.causal_lm:CausalLMConfig",
        "classification": "regard.objectives.classification:ClassificationConfig",
        "regression": "regard.objectives.regression:RegressionConfig",
        "distillation": "regard.objectives.distillation:DistillationConfig",
        "vectors": "regard.families.vectors:VectorsConfig",
        "span": "regard.objectives.span:SpanConfig",
        "tagging": "regard.objectives.tagging:TaggingConfig",
        "masked_lm": "regard.objectives.masked_lm:MaskedLMConfig",
        "replaced_token": "regard.objectives.replaced_token:ReplacedTokenConfig",
        "bidirectional_lm": "regard.objectives.bidirectional_lm:BidirectionalLMConfig",
        "skipgram": "regard.objectives.negative_sampling:SkipGramConfig",
        "cbow": "regard.objectives.negative_sampling:CBOWConfig",
        "glove": "regard.objectives.glove:GloVeConfig",
        "captioning": "regard.objectives.captioning:CaptioningConfig",
    }
)
BUILDERS: dict[str, Callable[[Any], Objective]] = {}
"""Objectives of plugins: from settings to the objective. The others are built by their task, which knows what they need."""

"""Training objectives: the settings class of each, by the name in a recipe; imported when it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from regard.core.config import LazyRegistry

if TYPE_CHECKING:
    from regard.objectives.base import Objective

OBJECTIVES = LazyRegistry[type[Any]](
    {
        "seq2seq": "regard.objectives.seq2seq:Seq2SeqConfig",
        "denoising": "regard.objectives.denoising:DenoisingConfig",
        "contrastive": "regard.objectives.contrastive:ContrastiveConfig",
        "causal_lm": "regard.objectives.causal_lm:CausalLMConfig",
        "classification": "regard.objectives.classification:ClassificationConfig",
        "regression": "regard.objectives.classification:RegressionConfig",
        "distillation": "regard.objectives.distillation:DistillationConfig",
        "vectors": "regard.model.heads:VectorsConfig",
        "span": "regard.objectives.span:SpanConfig",
        "tagging": "regard.objectives.tagging:TaggingConfig",
        "masked_lm": "regard.objectives.masked_lm:MaskedLMConfig",
        "replaced_token": "regard.objectives.replaced_token:ReplacedTokenConfig",
        "bidirectional_lm": "regard.objectives.causal_lm:BidirectionalLMConfig",
        "skipgram": "regard.objectives.negative_sampling:SkipGramConfig",
        "cbow": "regard.objectives.negative_sampling:CBOWConfig",
        "glove": "regard.objectives.glove:GloVeConfig",
        "captioning": "regard.objectives.captioning:CaptioningConfig",
        "answering": "regard.objectives.answering:AnsweringConfig",
        "masked_patches": "regard.objectives.masked_patches:MaskedPatchesConfig",
        "pixels": "regard.objectives.pixels:PixelsConfig",
        "forecasting": "regard.objectives.forecasting:ForecastingConfig",
        "image_classification": "regard.objectives.image_classification:ImageClassificationConfig",
        "image_distillation": "regard.objectives.image_classification:ImageDistillationConfig",
    }
)
LOSSES = LazyRegistry[Callable[[Any], "Objective"]](
    {
        "seq2seq": "regard.objectives.seq2seq:Seq2SeqLoss",
        "denoising": "regard.objectives.denoising:denoising_loss",
        "contrastive": "regard.objectives.contrastive:ContrastiveLoss",
        "causal_lm": "regard.objectives.causal_lm:CausalLMLoss",
        "span": "regard.objectives.span:SpanLoss",
        "tagging": "regard.objectives.tagging:TaggingLoss",
        "masked_lm": "regard.objectives.masked_lm:MaskedLMLoss",
        "replaced_token": "regard.objectives.replaced_token:ReplacedTokenLoss",
        "captioning": "regard.objectives.captioning:CaptioningLoss",
        "answering": "regard.objectives.answering:AnsweringLoss",
        "masked_patches": "regard.objectives.masked_patches:MaskedPatchesLoss",
        "pixels": "regard.objectives.pixels:PixelsLoss",
        "forecasting": "regard.objectives.forecasting:ForecastingLoss",
    }
)
"""From its settings to an objective, plugins' among them. Objectives that need more than settings are built by their task."""


def make_objective(config: Any) -> Objective:
    """Build the objective of these settings."""
    return LOSSES[config.name](config)

"""What is minimised. The settings of each objective, by the name a recipe uses; imported with it, when it is used."""

from __future__ import annotations

from typing import Any

from regard.lookup import ByName

OBJECTIVES = ByName[type[Any]](
    {
        "translation": "regard.objective.translation:TranslationConfig",
        "contrast": "regard.objective.contrast:ContrastConfig",
        "next_token": "regard.objective.next_token:NextTokenConfig",
        "classification": "regard.objective.classification:ClassificationConfig",
        "regression": "regard.objective.regression:RegressionConfig",
        "distillation": "regard.objective.distillation:DistillationConfig",
        "vectors": "regard.families.vectors:VectorsConfig",
        "span": "regard.objective.span:SpanConfig",
        "tagging": "regard.objective.tagging:TaggingConfig",
        "masked": "regard.objective.masked:MaskedConfig",
        "replaced": "regard.objective.replaced:ReplacedConfig",
        "both_ways": "regard.objective.both_ways:BothWaysConfig",
        "skipgram": "regard.objective.negative_sampling:SkipGramConfig",
        "cbow": "regard.objective.negative_sampling:CBOWConfig",
        "glove": "regard.objective.glove:GloVeConfig",
        "captioning": "regard.objective.captioning:CaptioningConfig",
    }
)

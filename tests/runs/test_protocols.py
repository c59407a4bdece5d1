"""What a predictor can do is asked by protocols, and missing capabilities are refused in one sentence."""

from __future__ import annotations

import pytest

from regard.core.errors import UserError
from regard.runs.protocols import (
    Attends,
    Captions,
    Converses,
    Documents,
    Embeds,
    Fills,
    HasWordVectors,
    Inspectable,
    Scores,
    Streams,
    Traceable,
    capability,
)
from regard.tasks.captioning.predict import CaptionGenerator
from regard.tasks.classification.predict import Regressor, TextClassifier
from regard.tasks.dialogue.predict import Responder
from regard.tasks.embedding.predict import Embedder
from regard.tasks.language_model.predict import TextGenerator
from regard.tasks.masked_lm.predict import FillMask, ReplacedTokenDetector
from regard.tasks.question_answering.predict import QuestionAnswerer
from regard.tasks.registry import open_run
from regard.tasks.retrieval.predict import Retriever
from regard.tasks.tagging.predict import Tagger
from regard.tasks.translation.predict import Translator
from regard.tasks.word_vectors.predict import WordVectorModel
from tests.command import trained

READERS = (FillMask, ReplacedTokenDetector, Tagger, TextClassifier, Regressor, QuestionAnswerer, Embedder)
CAN: dict[type, tuple[type, ...]] = {
    Inspectable: (Translator, TextGenerator, CaptionGenerator, *READERS),
    Traceable: (Translator, TextGenerator),
    Attends: (Translator, TextGenerator),
    Documents: (TextClassifier, Regressor),
    Captions: (CaptionGenerator,),
    Streams: (TextGenerator,),
    Converses: (Responder, Retriever),
    Scores: (TextGenerator,),
    Fills: (FillMask,),
    Embeds: (Embedder, Retriever),
    HasWordVectors: (WordVectorModel,),
}
PREDICTORS = {kind for kinds in CAN.values() for kind in kinds}


@pytest.mark.parametrize("protocol", CAN, ids=lambda protocol: protocol.__name__)
def test_who_can_do_what(protocol: type) -> None:
    """By methods: what an instance sets itself, such as its tokenizer, is annotated in its class."""
    methods = [name for name in vars(protocol) if not name.startswith("_") and callable(vars(protocol)[name])]
    assert {kind for kind in PREDICTORS if all(hasattr(kind, name) for name in methods)} == set(CAN[protocol])


def test_a_capability_is_the_predictor_itself_or_a_sentence() -> None:
    translator = open_run(trained(), "cpu")
    traceable = capability(translator, Traceable, "beam search traces")
    assert traceable is translator
    assert traceable.trace("the cat", 2, [])
    assert isinstance(translator, Inspectable)
    assert isinstance(translator, Attends)
    assert not isinstance(translator, Streams | Scores | Embeds | Converses | HasWordVectors)
    with pytest.raises(UserError, match=r"^this run has no likelihood of texts; give a language model\.$"):
        capability(translator, Scores, "likelihood of texts", "give a language model")


def test_the_example_of_a_translator_can_be_inspected() -> None:
    translator = capability(open_run(trained(), "cpu"), Inspectable, "attention")
    subject = translator.subject(translator.example)
    assert subject.output_text
    assert subject.title == f"{translator.example} → {subject.output_text}"

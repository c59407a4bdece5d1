"""The engine with predictors as their tasks open them: what each offers as rows is what `predict` writes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from regard.commands.loaded import with_decode
from regard.core.errors import UserError
from regard.decode.config import GREEDY, BeamSettings, DecodeConfig, Sampling
from regard.families import build_model
from regard.families.captioner import Captioner, CaptionerConfig
from regard.families.t5 import T5Config
from regard.serve.engine import Engine
from regard.serve.settings import writer_of
from regard.serve.work import EngineSettings, Generate
from regard.tasks.captioning.predict import CaptionGenerator
from regard.tasks.text_to_text.predict import TextWriter
from tests.families.public_folder import shaken
from tests.serve.small_writers import SMALL, WINDOW, WORDS, tokenizer, writer

METHODS: list[Any] = [GREEDY, Sampling(temperature=0.8), BeamSettings(beam=3)]


def served(predictor: Any, works: list[Generate]) -> list[list[str]]:
    engine = Engine(predictor, start=False)
    tickets = [engine.submit(work) for work in works]
    while engine.step():
        pass
    return [[sample.text for sample in ticket.result(0).samples] for ticket in tickets]


@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
def test_images_are_captioned_together_as_alone(decoder: str) -> None:
    blocks = {"heads": 2, "feedforward": 24} if decoder == "transformer" else {}
    sizes: dict[str, Any] = {"width": 16, "layers": 1, "dropout": 0.0, "image_size": 16, "patch": 4, **blocks}
    config = CaptionerConfig(decoder=decoder, **sizes)
    predictor = CaptionGenerator(shaken(Captioner(config, len(tokenizer()), 1)).eval(), tokenizer(), DecodeConfig())
    draw = np.random.default_rng(0)
    pictures = [Image.fromarray(draw.integers(0, 256, (16, 16, 3), np.uint8)) for _ in range(4)]
    works = [Generate(text="", picture=picture, method=method, max_tokens=9) for picture in pictures[:3] for method in METHODS]
    expected = []
    for work in works:
        alone = writer_of(predictor, work, EngineSettings())
        assert isinstance(alone, CaptionGenerator)
        expected.append([found.text for found in alone.write(alone._pixels(work.picture)[None])[0]])
    assert served(predictor, works) == expected
    engine = Engine(predictor, start=False)
    ticket = engine.submit(Generate(text="a bird"))
    engine.step()
    with pytest.raises(UserError, match="give an image"):
        ticket.result(0)


def test_a_text_ends_with_the_window_and_not_with_an_error() -> None:
    predictor = with_decode(
        writer("gpt"), DecodeConfig(search="greedy", sliding_window=True, maximum_length=100, minimum_length=99)
    )
    prompt = " ".join(WORDS[:8])
    length = len(predictor.encode(prompt))
    engine = Engine(predictor, start=False)
    tickets = [engine.submit(Generate(text=prompt)), engine.submit(Generate(text=prompt, max_tokens=WINDOW, minimum_tokens=2))]
    while engine.step():
        pass
    with pytest.raises(UserError, match="minimum_length is 99"):
        tickets[0].result(0)
    (sample,) = tickets[1].result(0).samples
    assert len(sample.tokens) <= WINDOW + 1 - length
    assert length > 8
    assert sample.finish == "stop" or len(sample.tokens) == WINDOW + 1 - length


def test_texts_with_a_prefix_are_written_together_as_alone() -> None:
    size = len(tokenizer())
    model = shaken(build_model(T5Config(**SMALL, head_width=8), 1, vocabulary=size, target_vocabulary=size)).eval()
    data = SimpleNamespace(prefixes=("the ",), maximum_target=12, maximum_input=20)
    recipe: Any = SimpleNamespace(data=data, model=model.config)
    predictor = TextWriter(model, tokenizer(), recipe, DecodeConfig())
    works = [Generate(text=" ".join(WORDS[n : n + 3]), method=method) for n in range(3) for method in METHODS]
    expected = []
    for work in [*works, Generate(text=" ")]:
        alone = writer_of(predictor, work, EngineSettings())
        assert isinstance(alone, TextWriter)
        expected.append([found.text for found in alone.write([work.text])[0]])
    assert served(predictor, [*works, Generate(text=" ")]) == expected
    engine = Engine(predictor, start=False)
    ticket = engine.submit(Generate(text=" ".join(WORDS * 2)))
    engine.step()
    with pytest.raises(UserError, match="and 20 are read; shorten it"):
        ticket.result(0)

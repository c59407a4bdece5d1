"""What a request changes of a run's settings."""

from __future__ import annotations

from typing import Any

import pytest

from regard.commands.loaded import with_decode
from regard.core.errors import UserError
from regard.decode.config import BeamSettings, DecodeConfig, Sampling
from regard.serve.settings import writer_of
from regard.serve.work import EngineSettings, Generate
from tests.serve.small_writers import writer

OWN = DecodeConfig(search="beam", beam=3, length_penalty=0.9, minimum_length=2, maximum_length=30, banned_words=("x",))


def changed(config: DecodeConfig = OWN, **given: Any) -> DecodeConfig:
    return writer_of(with_decode(writer("gpt"), config), Generate(text="", **given), EngineSettings()).decode


def test_a_request_that_names_no_search_has_that_of_the_run() -> None:
    assert changed() == OWN
    assert changed(n=2, max_tokens=9, minimum_tokens=4).n_best == 2


def test_a_search_of_its_own_has_nothing_of_the_other_one() -> None:
    found = changed(method=Sampling(temperature=0.5, top_k=3), n=2, seed=7)
    assert (found.search, found.temperature, found.top_k, found.samples, found.seed) == ("sample", 0.5, 3, 2, 7)
    assert (found.beam, found.length_penalty, found.minimum_length, found.banned_words) == (4, 0.6, 2, ("x",))
    sampling = DecodeConfig(search="sample", top_p=0.5, repetition_penalty=1.2)
    found = changed(sampling, method=BeamSettings(beam=2, length_formula="power"))
    assert (found.method, found.top_p, found.samples) == (BeamSettings(beam=2, length_formula="power"), 1.0, 1)
    assert changed(method=Sampling(temperature=0.0, repetition_penalty=1.1)).search == "greedy"


def test_settings_by_name_are_checked_as_a_recipe_is() -> None:
    assert changed(settings={"banned_words": ["a,b"], "prefix": "c, d"}).banned_words == ("a,b",)
    for settings, says in (({"beam": 2}, "decode.beam is not for a request"), ({"no_repeat_ngram": -1}, "no_repeat_ngram is -1")):
        with pytest.raises(UserError, match=says):
            changed(settings=settings)
    with pytest.raises(UserError, match="temperature 0 draws nothing"):
        changed(method=Sampling(temperature=0.0, top_k=4))

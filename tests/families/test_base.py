"""What every `Family` value must keep, and how one is found."""

import subprocess
import sys
from dataclasses import replace

import pytest

from regard.families import FAMILIES, family_of
from regard.families.base import CAPABILITIES, Heads
from regard.families.classifier import classifier
from regard.families.gpt import GPTConfig


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_named_as_its_file_and_its_settings(name):
    family = FAMILIES[name]
    assert family.name == name == family.config().family
    assert family_of(family.config()) is family


def test_every_capability_is_had_by_a_family():
    assert set().union(*(family.capabilities for family in FAMILIES.values())) == CAPABILITIES.keys()


def test_a_capability_that_is_not_listed_is_refused():
    with pytest.raises(ValueError, match="telepathy"):
        replace(FAMILIES["gpt"], capabilities=frozenset({"telepathy"}))
    with pytest.raises(KeyError, match="telepathy"):
        FAMILIES["gpt"].has("telepathy")


def test_a_model_has_the_family_of_its_config_and_a_classifier_that_of_its_body():
    model = classifier(GPTConfig(width=8, heads=1, layers=1, feedforward=8), 9, 2)
    assert family_of(model) is family_of(model.body) is FAMILIES["gpt"]
    assert family_of(model).has("causal_lm", "pooled_vector")
    assert not family_of(model).has("causal_lm", "seq2seq")


def test_a_family_is_found_without_importing_the_others():
    script = """
import sys
from regard.families import FAMILIES
assert len(FAMILIES) > 10 and "nonesuch" not in FAMILIES and "base" not in FAMILIES
found = [name for name in sys.modules if name.startswith("regard.families.")]
assert not found, found
FAMILIES["transformer"]
found = {name for name in sys.modules if name.startswith("regard.families.")}
assert found == {"regard.families.base", "regard.families.transformer"}, found
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_what_is_asked_of_a_whole_text_needs_a_pooler():
    assert not Heads(tags=3).pooled
    assert Heads(classes=2).pooled
    assert Heads(next_sentence=True).pooled

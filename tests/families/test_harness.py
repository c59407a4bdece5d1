"""Every family, in several choices of parts, through the one harness."""

import inspect

import pytest

from regard.families.transformer import Transformer, TransformerConfig
from tests.families import harness
from tests.families.harness import Family

SMALL = dict(width=24, heads=3, feedforward=40, layers=2, dropout=0.0)


def transformer(name: str, **choices) -> Family:
    config = TransformerConfig(**(SMALL | choices))
    return Family(name, lambda: Transformer(config, 31, 31, seed=7), 31)


FAMILIES = [
    transformer("transformer"),
    transformer("transformer, pre-norm, gelu", norm="pre", activation="gelu"),
    transformer("transformer, learned positions", position="learned", maximum_length=80),
    transformer("transformer, concatenated positions", join="concat", position_width=8, tie="none"),
    transformer("transformer, window", visibility="window(2)", tie="output"),
]
CHECKS = {name: check for name, check in inspect.getmembers(harness, inspect.isfunction) if name.startswith("check_")}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_family(family, check, tmp_path):
    if check == "check_saved_and_loaded_is_equal":
        CHECKS[check](family, tmp_path)
    else:
        CHECKS[check](family)

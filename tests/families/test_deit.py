"""DeiT: two tokens, two heads, one answer; otherwise the ViT that tests/families/test_vit.py compares with torch's layers."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import UserError
from regard.families.base import Heads, Sizes
from regard.families.deit import FAMILY, DeiTConfig

SMALL = dict(width=16, heads=2, feedforward=24, layers=2, image_size=12, patch=4)


def test_each_head_reads_its_own_token_and_the_answer_is_their_mean() -> None:
    config, sizes = DeiTConfig(**SMALL), Sizes(vocabulary=0, heads=Heads(words=False, classes=3))
    model = FAMILY.build(config, sizes, 1).eval()
    (images,) = FAMILY.example(config, sizes, 2)
    x, found = model.hidden(images), model.outputs(images)
    assert x.shape == (2, 2 + 9, 16)
    assert list(found) == ["classes", "distilled"]
    torch.testing.assert_close(found["classes"], model.classes(x[:, 0]))
    torch.testing.assert_close(found["distilled"], model.distilled(x[:, 1]))
    torch.testing.assert_close(model(images), (found["classes"] + found["distilled"]) / 2)
    assert not torch.allclose(found["classes"], found["distilled"])


def test_other_poolings_are_refused() -> None:
    with pytest.raises(UserError, match=r"model\.family=vit"):
        DeiTConfig(**SMALL, pooling="mean")

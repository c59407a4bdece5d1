"""Windows: every token is somebody's aim once an epoch, and any step can be drawn alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.windows import Windows
from regard.errors import UserError


@given(st.integers(2, 200), st.integers(1, 12), st.integers(1, 60), st.integers(0, 3))
def test_an_epoch_is_every_window_once(tokens, length, budget, epoch):
    if tokens <= length:
        with pytest.raises(UserError, match="fewer than one window"):
            Windows(np.arange(tokens), length, budget, seed=1)
        return
    source = Windows(np.arange(tokens), length, budget, seed=1)
    batches = [source.batch(rows, epoch) for rows in source.plan(epoch)]
    aims = np.concatenate([batch.next_BL.flatten().numpy() for batch in batches])
    assert sorted(aims) == list(range(1, len(source) * length + 1))
    for batch in batches:
        assert (batch.next_BL - batch.ids_BL == 1).all()
        assert batch.tokens == batch.ids_BL.numel()
        assert batch.ids_BL.shape[1] == length


def test_epochs_differ_and_come_again():
    source = Windows(np.arange(1000), 10, 50, seed=1)
    orders = [np.concatenate(source.plan(epoch)).tolist() for epoch in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]

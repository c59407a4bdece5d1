"""Batches of levels: every image once an epoch, in an order that its number decides."""

import numpy as np
import torch

from regard.data.batching.pixels import PixelBatches, PixelData, shrunk

DATA = PixelData(np.arange(40, dtype=np.uint8).reshape(10, 4), np.arange(10), np.arange(10, dtype=np.uint8)[:, None])


def test_every_image_comes_once_an_epoch_with_its_class_and_its_small_image():
    source = PixelBatches(DATA, 4, seed=3)
    for epoch in (0, 1):
        batches = [source.batch(rows, epoch) for rows in source.plan(epoch)]
        assert sorted(torch.cat([batch.class_B for batch in batches]).tolist()) == list(range(10))
        for batch in batches:
            assert torch.equal(batch.level_BL[:, 0].long(), 4 * batch.class_B)
            assert torch.equal(batch.small_BM[:, 0].long(), batch.class_B)
            assert batch.tokens == batch.level_BL.numel()
    first, again, second = (np.concatenate(source.plan(epoch)) for epoch in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, second)
    assert source.count(np.arange(3)) == 12
    assert torch.equal(torch.cat([batch.level_BL for batch in source.in_order()]), torch.from_numpy(DATA.level_NL))


def test_a_hash_tells_other_data():
    others = [
        PixelData(DATA.level_NL, DATA.class_N),
        PixelData(DATA.level_NL[::-1], DATA.class_N, DATA.small_NM),
        PixelData(DATA.level_NL, DATA.class_N[::-1], DATA.small_NM),
        PixelData(DATA.level_NL.reshape(5, 8), DATA.class_N, DATA.small_NM),
    ]
    assert len({data.digest() for data in (DATA, *others)}) == 5
    assert DATA.digest() == PixelData(DATA.level_NL.copy(), DATA.class_N.copy(), DATA.small_NM.copy()).digest()


def test_a_small_image_has_the_means_of_squares():
    image = np.random.default_rng(0).integers(0, 256, (2, 6, 6, 3), dtype=np.uint8)
    small = shrunk(image, 2)
    for n, y, x, c in np.ndindex(2, 2, 2, 3):
        mean = image[n, 3 * y : 3 * y + 3, 3 * x : 3 * x + 3, c].mean()
        assert abs(float(small[n, y, x, c]) - mean) <= 0.5 + 1e-4

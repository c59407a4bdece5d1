"""Compressors by the tools people have, and the order in which baselines must come."""

from __future__ import annotations

import gzip
import inspect
import lzma
import shutil
import subprocess
import textwrap
import zlib

import numpy as np
import pytest

from regard.core.errors import UserError
from regard.metrics.lm_baselines import Trigrams, baselines, gzip_bits_per_byte, lzma_bits_per_byte, trigram_likelihood

TEXT = inspect.getsource(textwrap) + inspect.getsource(inspect)[:60_000]
TRAINING, TEST = TEXT[:-8000], TEXT[-8000:]


@pytest.mark.parametrize(("tool", "ours"), [(["gzip", "-9nc"], gzip_bits_per_byte), (["xz", "-9ec"], lzma_bits_per_byte)])
def test_bits_are_those_of_the_tool(tool, ours):
    if shutil.which(tool[0]) is None:
        pytest.skip(f"no {tool[0]} on this machine")
    made = subprocess.run(tool, input=TEST.encode(), capture_output=True, check=True).stdout
    assert ours(TEST.encode()) == pytest.approx(8 * len(made) / len(TEST.encode()), rel=0.005)


def test_a_primed_gzip_can_be_read_back_with_its_last_32_kib():
    """So the dictionary is what is said, and all bits are counted."""
    deflate = zlib.compressobj(9, zdict=TRAINING.encode()[-32_768:])
    made = deflate.compress(TEST.encode()) + deflate.flush()
    assert zlib.decompressobj(zdict=TRAINING.encode()[-32_768:]).decompress(made) == TEST.encode()
    assert gzip_bits_per_byte(TEST.encode(), TRAINING.encode()) == 8 * len(made) / len(TEST.encode())


def test_random_bytes_cannot_be_compressed_and_known_ones_cost_nothing():
    noise = np.random.default_rng(0).bytes(20_000)
    for ours in (gzip_bits_per_byte, lzma_bits_per_byte):
        assert 8 <= ours(noise) < 8.1
        assert ours(noise, noise) < 0.2
    assert len(gzip.compress(noise)) > 20_000 < len(lzma.compress(noise))


def test_knowing_the_training_text_helps_and_trigrams_of_bytes_are_scored_by_the_byte():
    ids, test = (np.frombuffer(text.encode(), dtype=np.uint8) for text in (TRAINING, TEST))
    found = baselines(TRAINING, TEST, ids, test, vocabulary=256, start=0)
    assert all(0 < bits < 8 for bits in found.values())
    alone, primed, lzma_alone, lzma_primed, interpolated, trigrams = found.values()
    assert primed < alone
    assert lzma_primed < lzma_alone
    assert trigrams < interpolated
    likelihood = trigram_likelihood(Trigrams, ids, test, TEST, 256, 0)
    assert trigrams == likelihood.bits_per_byte == pytest.approx(likelihood.bits_per_token)


def test_no_text_is_told():
    for ours in (gzip_bits_per_byte, lzma_bits_per_byte):
        with pytest.raises(UserError, match="no text to compress"):
            ours(b"")

"""What a language model must beat: compressors and counting, in bits for each byte of the test text.

A compressor is a language model too: it spends few bits on what it expects. Each is tried knowing nothing, and knowing as much of
the training text as it can. gzip (level 9) looks back 32 KiB at most, so it is primed with the last 32 KiB of the training text.
LZMA looks back 64 MiB, so it compresses training and test text as one, and what training alone takes is subtracted. Headers and
checksums, some 10 to 70 bytes, are counted where nothing is subtracted.
"""

from __future__ import annotations

import gzip
import lzma
import zlib

import numpy as np

from regard.errors import UserError
from regard.evaluate.interpolated import Interpolated
from regard.evaluate.kneser_ney import Trigrams
from regard.evaluate.likelihood import Likelihood

GZIP_REACH = 2**15
LZMA_PRESET = 9 | lzma.PRESET_EXTREME


def gzip_bits_per_byte(test: bytes, training: bytes = b"") -> float:
    """Of gzip -9; with training text, of the same algorithm with the last 32 KiB of that as its dictionary."""
    if not training:
        return _bits_per_byte(len(gzip.compress(test, 9, mtime=0)), test)
    deflate = zlib.compressobj(9, zdict=training[-GZIP_REACH:])
    return _bits_per_byte(len(deflate.compress(test)) + len(deflate.flush()), test)


def lzma_bits_per_byte(test: bytes, training: bytes = b"") -> float:
    """Of xz -9e; with training text, by how much the test text behind it makes the whole larger."""
    alone = len(lzma.compress(training, preset=LZMA_PRESET)) if training else 0
    return _bits_per_byte(len(lzma.compress(training + test, preset=LZMA_PRESET)) - alone, test)


def trigram_likelihood(
    kind: type[Trigrams] | type[Interpolated],
    training_ids: np.ndarray,
    test_ids: np.ndarray,
    test: str,
    vocabulary: int,
    start: int,
) -> Likelihood:
    """Of a trigram model over the same tokens, trained on the same text as the model it is compared with."""
    scores = kind.train(training_ids, vocabulary, start).log_probabilities(test_ids)
    return Likelihood.of([scores], [test])


def baselines(
    training: str, test: str, training_ids: np.ndarray, test_ids: np.ndarray, vocabulary: int, start: int
) -> dict[str, float]:
    """Bits per byte of the test text by what was done; less is better."""
    known, new, ids = training.encode(), test.encode(), (training_ids, test_ids, test, vocabulary, start)
    return {
        "gzip": gzip_bits_per_byte(new),
        "gzip after the training text's last 32 KiB": gzip_bits_per_byte(new, known),
        "LZMA": lzma_bits_per_byte(new),
        "LZMA after the training text": lzma_bits_per_byte(new, known),
        "trigrams, interpolated": trigram_likelihood(Interpolated, *ids).bits_per_byte,
        "trigrams, Kneser-Ney": trigram_likelihood(Trigrams, *ids).bits_per_byte,
    }


def _bits_per_byte(compressed: int, test: bytes) -> float:
    if not test:
        raise UserError("there is no text to compress: the test text is empty; give at least one byte.")
    return 8 * compressed / len(test)

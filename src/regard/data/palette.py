"""Colours as levels, and levels as colours: evenly spaced, or the nearest colour of a palette.

A palette is learned by k-means over the pixels of the training images, as ImageGPT's 512 colours were (Chen et al. 2020, section
3.1): a colour is one token of 9 bits, where red, green and blue are three of 8. Its centres are numbers from -1 to 1, as there.

Dims: N images, Y X rows and columns, C colours, V levels or colours of a palette, P pixels.
"""

from __future__ import annotations

import numpy as np

from regard.core.errors import UserError
from regard.core.rng import generator

ROUNDS = 25  # of k-means
SAMPLE = 100_000  # pixels that it looks at
PART = 1 << 22  # distances at a time
BYTES = 256


def even_levels(pixels: np.ndarray, levels: int) -> np.ndarray:
    """Return bytes as levels 0 to `levels` - 1, each of nearly as many bytes as any other."""
    return pixels if levels == BYTES else (pixels.astype(np.int32) * levels // BYTES).astype(np.uint8)


def even_bytes(level: np.ndarray, levels: int) -> np.ndarray:
    """Return levels as bytes, from 0 for the lowest to 255 for the highest."""
    return np.rint(level * ((BYTES - 1) / (levels - 1))).astype(np.uint8)


def nearest_colours(pixels_PC: np.ndarray, palette_VC: np.ndarray) -> np.ndarray:
    """Return the number of the nearest colour of a palette for each pixel of bytes; the first of equals."""
    square_V, found = (palette_VC.astype(np.float64) ** 2).sum(1), np.empty(len(pixels_PC), np.int16)
    for start in range(0, len(pixels_PC), size := max(1, PART // len(palette_VC))):
        part_PC = as_numbers(pixels_PC[start : start + size])
        found[start : start + size] = (square_V - 2 * part_PC @ palette_VC.T.astype(np.float64)).argmin(1)
    return found


def as_numbers(pixels: np.ndarray) -> np.ndarray:
    """Return bytes as numbers from -1 to 1."""
    return pixels / ((BYTES - 1) / 2) - 1


def as_bytes(numbers: np.ndarray) -> np.ndarray:
    return np.rint((np.clip(numbers, -1, 1) + 1) * ((BYTES - 1) / 2)).astype(np.uint8)


def learn_palette(pixels_PC: np.ndarray, colours: int, seed: int) -> np.ndarray:
    """Return palette_VC, from dark to bright: the centres of k-means, which starts from colours drawn by k-means++.

    Arthur & Vassilvitskii 2007: each further centre is drawn in proportion to its squared distance from those before it.
    """
    distinct, counts = np.unique(pixels_PC, axis=0, return_counts=True)
    if len(distinct) < colours:
        raise UserError(
            f"model.levels={colours} colours are more than the {len(distinct):,} that the training images have; give "
            f"model.levels={len(distinct)} or fewer."
        )
    draw = generator(seed, "palette")
    if len(distinct) > SAMPLE:
        rows = draw.choice(len(distinct), SAMPLE, replace=False, p=counts / counts.sum())
        distinct, counts = distinct[rows], counts[rows]
    points_PC, weight_P = as_numbers(distinct), counts.astype(np.float64)
    chosen = [int(draw.choice(len(points_PC), p=weight_P / weight_P.sum()))]
    far_P = ((points_PC - points_PC[chosen[0]]) ** 2).sum(1)
    while len(chosen) < colours:
        share_P = weight_P * far_P
        chosen.append(int(draw.choice(len(points_PC), p=share_P / share_P.sum())))
        far_P = np.minimum(far_P, ((points_PC - points_PC[chosen[-1]]) ** 2).sum(1))
    centres_VC = points_PC[chosen]
    for _ in range(ROUNDS):
        nearest_P = nearest_colours(distinct, centres_VC)
        total_V = np.bincount(nearest_P, weight_P, colours)
        sums_VC = np.stack([np.bincount(nearest_P, weight_P * points_PC[:, c], colours) for c in range(points_PC.shape[1])], 1)
        centres_VC = np.where(total_V[:, None] > 0, sums_VC / np.maximum(total_V, 1)[:, None], centres_VC)
    return centres_VC[np.lexsort((*centres_VC.T, centres_VC.sum(1)))]

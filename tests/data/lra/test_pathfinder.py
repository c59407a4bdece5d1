"""Pathfinder: pictures in which a plain program that follows dashes finds the path, and in which nothing simpler tells it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from regard.core.rng import generator
from regard.data.lra import generate_sequences
from regard.data.lra.pathfinder import DOT_LIGHT, STYLES, pictures_of


@cache
def drawn(side: int = 32, count: int = 600) -> tuple[np.ndarray, np.ndarray]:
    return pictures_of(STYLES[side], count, generator(5, "test"))


def dots(picture: np.ndarray) -> list[list[tuple[int, int]]]:
    """Groups of full white, which only dots are: by filling, not by how they were drawn."""
    white = {(int(y), int(x)) for y, x in np.argwhere(picture >= DOT_LIGHT - 1)}
    groups = []
    while white:
        group, edge = [], [white.pop()]
        while edge:
            y, x = edge.pop()
            group.append((y, x))
            near = {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)} & white
            white -= near
            edge += near
        groups.append(group)
    return groups


def joined(picture: np.ndarray, gap: int = 2) -> bool:
    """Whether one gets from dot to dot over lit pixels, each at most `gap` from the last."""
    first, second = dots(picture)
    lit = {(int(y), int(x)) for y, x in np.argwhere(picture > 0)}
    edge, reached = list(first), set(first)
    while edge:
        y, x = edge.pop()
        near = {(y + dy, x + dx) for dy in range(-gap, gap + 1) for dx in range(-gap, gap + 1)} & lit - reached
        reached |= near
        edge += near
    return bool(reached & set(second))


def test_every_picture_has_two_dots_and_dashes() -> None:
    pictures, labels = drawn()
    assert len(pictures) > 200
    assert pictures.dtype == np.uint8
    two = [len(dots(picture)) for picture in pictures[:150]]
    assert np.mean([count == 2 for count in two]) > 0.95  # two ends may lie side by side
    assert 0.1 < (pictures > 0).mean() < 0.3
    assert 0.4 < labels.mean() < 0.6


@pytest.mark.parametrize(
    ("side", "count", "gap", "faint", "right"), [(16, 800, 1, 20, 0.8), (32, 600, 1, 20, 0.85), (128, 90, 2, 0, 0.9)]
)
def test_the_path_is_there_where_the_label_says_so(side: int, count: int, gap: int, faint: int, right: float) -> None:
    """Snakes keep clear of each other by more than their gaps, so whoever follows dashes, as crudely as this, is mostly right."""
    pictures, labels = drawn(side, count)
    clear = [n for n in range(len(pictures)) if len(dots(pictures[n])) == 2][:150]
    assert len(clear) > 30
    seen = [joined(np.where(pictures[n] > faint, pictures[n], 0), gap) for n in clear]
    assert np.mean(seen == labels[clear]) > right


def test_paths_begin_in_the_middle() -> None:
    """As published: at most so far from it as the two snakes are from each other, whichever of them the dot is on."""
    for side in STYLES:
        apart, middle = STYLES[side].apart, np.array([side / 2, side / 2])
        corner = np.linalg.norm(np.full(2, side / 2 - 2 * apart))  # of where the first one may begin
        for picture in drawn(side, 60)[0]:
            spots = [np.mean(group, 0) + 0.5 for group in dots(picture)]
            assert min(np.linalg.norm(spot - middle) for spot in spots) < corner + apart + 1.5


def test_how_far_apart_the_dots_are_says_little() -> None:
    pictures, labels = drawn(32, 1000)
    pairs = [(dots(picture), label) for picture, label in zip(pictures, labels)]
    spots = [(np.array([np.mean(group, 0) for group in found]), label) for found, label in pairs if len(found) == 2]
    distance, label = np.array([np.linalg.norm(a - b) for (a, b), _ in spots]), np.array([label for _, label in spots])
    best = max(np.mean((distance < cut) == label) for cut in np.quantile(distance, np.linspace(0.02, 0.98, 49)))
    best = max(best, max(np.mean((distance >= cut) == label) for cut in np.quantile(distance, np.linspace(0.02, 0.98, 49))))
    assert best < 0.62


def test_how_bright_a_picture_is_says_nothing() -> None:
    pictures, labels = drawn(32, 1000)
    light = pictures.reshape(len(pictures), -1).mean(1)
    assert np.corrcoef(light, labels)[0, 1] == pytest.approx(0, abs=0.12)


LEVELS = (2, 6, 9, 14)


def test_with_fewer_dashes_paths_are_shorter() -> None:
    lit = [np.mean(generate_sequences(f"builtin:pathfinder@dashes={dashes}@count=200/valid").flat > 0) for dashes in LEVELS]
    dashes = [2 * level + 5 * 4 for level in LEVELS]  # two long snakes beside five short ones
    assert np.array(lit) / lit[2] == pytest.approx(np.array(dashes) / dashes[2], abs=0.07)  # and the dots
    hard, arena = (generate_sequences(f"builtin:pathfinder{level}@count=20/valid") for level in ("@dashes=14", ""))
    assert (hard.flat == arena.flat).all()
    small, most = (generate_sequences(f"builtin:pathfinder@side=16{level}@count=20/valid") for level in ("", "@dashes=5"))
    assert (small.flat == most.flat).all()
    assert set(small.lengths.tolist()) == {256}


def test_as_a_set_they_are_sequences_of_pixels() -> None:
    found, other = (generate_sequences(f"builtin:pathfinder@count=20/{split}") for split in ("valid", "test"))
    assert len(found) == 20
    assert set(found.lengths.tolist()) == {1024}
    assert found[3].label in ("joined", "apart")
    assert len(found[3].text.split()) == 1024
    assert (found.flat != other.flat).any()


@pytest.mark.parametrize("side", STYLES)
def test_the_same_seed_draws_the_same(side: int) -> None:
    (one, labels), (again, _), (other, _) = (pictures_of(STYLES[side], 8, generator(seed, "test")) for seed in (1, 1, 2))
    assert (one == again).all()
    assert one.shape != other.shape or (one != other).any()
    assert one.shape[1:] == (side, side)
    assert len(labels) == len(one)

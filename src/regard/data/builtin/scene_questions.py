"""Questions about drawn scenes whose answers are decidable: colour, shape, count, existence and relation.

    what colour are the circles?                  red          of a shape that one group alone has
    what shape is the red thing?                  square       of a colour that one group alone has
    how many red circles are there?               0 to 3       a quarter asks for what is not there; and of all things, 1 to 6
    is there a green triangle?                    yes, no      half each; what is not there mostly shares a colour or a shape
    is the red circle in the left or the right half?           left, right; or: upper, lower
    is the red circle above the blue squares?     yes, no      half each
    where is the red circle, seen from the blue squares?   above, below, left, right; or: what colour is above the blue squares?

A scene gets a question of each kind that it allows, and two about a relation. Answers are drawn so that a question's words say
nothing about them: a model that does not see the image is right about as often as one that guesses among the answers of a kind.

Scenes are those of `scenes.py`, and which split a scene is in is decided by a hash of what it shows. That holds for scenes of
one group too: those whose hash is another split's are left out here. So nothing that a test scene shows was ever trained on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from regard.core.rng import generator
from regard.data.builtin.scenes import COLOURS, OPPOSITE, PARTS, SEED, SHAPES, Group, Scene, part_of, scenes

KINDS = ("colour", "shape", "count", "existence", "place", "relation")
ABSENT, ALL = 0.25, 0.2  # share of counts of what is not there, and of all things
RELATIONS = tuple(word for pair in OPPOSITE.items() for word in pair)


class SceneQuestion(NamedTuple):
    scene: Scene
    text: str
    answer: str
    kind: str


def scene_questions(split: str, size: int | None = None, seed: int = SEED) -> list[SceneQuestion]:
    """Return the questions about the first `size` scenes of a split, by default all."""
    kept = (scene for scene in scenes(split, size, seed) if len(scene.groups) > 1 or part_of(scene.caption) in PARTS[split])
    return [question for scene in kept for question in _asked(scene, split)]


def _asked(scene: Scene, split: str) -> Iterator[SceneQuestion]:
    random = generator(scene.seed, f"scene-questions/{split}", scene.number)
    asked = (("colour", _colour), ("shape", _shape), ("count", _count), ("existence", _existence), ("place", _place))
    for kind, ask in (*asked, ("relation", _relation), ("relation", _side)):
        if (found := ask(scene, random)) is not None:
            yield SceneQuestion(scene, *found, kind)


Asked = tuple[str, str] | None  # question and answer


def _one(items: list[Group], random: np.random.Generator) -> Group | None:
    return items[random.integers(len(items))] if items else None


def _colour(scene: Scene, random: np.random.Generator) -> Asked:
    """Ask for the colour of a group that alone has its shape."""
    shapes = [group.shape for group in scene.groups]
    group = _one([group for group in scene.groups if shapes.count(group.shape) == 1], random)
    return None if group is None else (f"what colour {_the(group, group.shape)}?", group.colour)


def _shape(scene: Scene, random: np.random.Generator) -> Asked:
    colours = [group.colour for group in scene.groups]
    group = _one([group for group in scene.groups if colours.count(group.colour) == 1], random)
    return None if group is None else (f"what shape {_the(group, f'{group.colour} thing')}?", group.shape)


def _the(group: Group, noun: str) -> str:
    return f"are the {noun}s" if group.count > 1 else f"is the {noun}"


def _absent(scene: Scene, random: np.random.Generator, near: bool) -> tuple[str, str]:
    """Draw a colour and a shape that no group has; `near` ones share one of the two with a group."""
    present = {(group.colour, group.shape) for group in scene.groups}
    pairs = [(colour, shape) for colour in COLOURS for shape in SHAPES if (colour, shape) not in present]
    if near:
        pairs = [(c, s) for c, s in pairs if any(group.colour == c or group.shape == s for group in scene.groups)]
    return pairs[random.integers(len(pairs))]


def _count(scene: Scene, random: np.random.Generator) -> Asked:
    if random.random() < ALL:
        return "how many things are there?", str(sum(group.count for group in scene.groups))
    if random.random() < ABSENT:
        colour, shape = _absent(scene, random, near=True)
        return f"how many {colour} {shape}s are there?", "0"
    group = scene.groups[random.integers(len(scene.groups))]
    return f"how many {group.colour} {group.shape}s are there?", str(group.count)


def _existence(scene: Scene, random: np.random.Generator) -> Asked:
    if random.random() < 0.5:
        group = scene.groups[random.integers(len(scene.groups))]
        return f"is there a {group.colour} {group.shape}?", "yes"
    colour, shape = _absent(scene, random, near=random.random() < 0.75)
    return f"is there a {colour} {shape}?", "no"


def _place(scene: Scene, random: np.random.Generator) -> Asked:
    """Ask in which half of the image a group is, if all of its things are in one."""
    n = int(random.integers(len(scene.groups)))
    group, boxes = scene.groups[n], scene.boxes[n]
    for across in random.permutation(2):
        first, second = ("left", "right") if across else ("upper", "lower")
        ends = [(box.left, box.right) if across else (box.top, box.bottom) for box in boxes]
        inside = [all(end <= 0.5 for _, end in ends), all(start >= 0.5 for start, _ in ends)]
        if any(inside):
            noun = _the(group, f"{group.colour} {group.shape}")
            return f"{noun} in the {first} or the {second} half?", first if inside[0] else second
    return None


def _related(scene: Scene, random: np.random.Generator) -> tuple[Group, str, Group]:
    """Return two groups, either of them first, and the relation of the first to the second."""
    first, second = scene.groups
    if random.random() < 0.5:
        return second, OPPOSITE[scene.relation], first
    return first, scene.relation, second


def _relation(scene: Scene, random: np.random.Generator) -> Asked:
    """Ask whether a relation holds."""
    if not scene.relation:
        return None
    first, relation, second = _related(scene, random)
    true = random.random() < 0.5
    others = [word for word in RELATIONS if word != relation]
    said = relation if true else others[random.integers(len(others))]
    noun = _the(first, f"{first.colour} {first.shape}")
    return f"{noun} {said} {_named(second)}?", "yes" if true else "no"


def _side(scene: Scene, random: np.random.Generator) -> Asked:
    """Ask where a group is, seen from the other; or for the colour or the shape of what is in a relation to it."""
    if not scene.relation:
        return None
    first, relation, second = _related(scene, random)
    form = random.integers(4)
    if form >= 2:  # as often as the other two together
        noun = _the(first, f"{first.colour} {first.shape}")
        return f"where {noun}, seen from {_named(second)}?", relation.removesuffix(" of")
    asked, answer = (("colour", first.colour), ("shape", first.shape))[form]
    return f"what {asked} is {relation} {_named(second)}?", answer


def _named(group: Group) -> str:
    return f"the {group.colour} {group.shape}{'s' * (group.count > 1)}"

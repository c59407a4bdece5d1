"""Add parts from your own file: `regard.register.mixer("name", ...)`, and recipes can say `model.mixer=name`.

Load the file with `--plugin FILE` on the command line, or import it in Python. Every registry is a dictionary; registering a name
that is taken replaces nothing and is refused. `examples/` has a file for each kind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regard.core.errors import UserError, nearest
from regard.runs.plugins import REGISTERED

if TYPE_CHECKING:
    from regard.families.base import Family
    from regard.model.block import BodyConfig
    from regard.model.mixers import Mixer
    from regard.model.position.base import Position
    from regard.model.visibility import Visibility
    from regard.objectives.base import Objective
    from regard.runs.task import Task


def mixer(name: str, build: Callable[[int], Mixer]) -> None:
    """Add an attention function, for `model.mixer=name`; `build` takes the width of a head.

    What it returns has `mix` (fast), `weights` (explicit, what probes show) and `recurrent_form` (None), as `Mixer` says.
    """
    from regard.model.mixers import MIXERS, SCORES

    _new("mixer", name, MIXERS)
    SCORES[name] = build
    MIXERS[name] = lambda config, _: build(config.key_width)


def visibility(name: str, pattern: Visibility | Callable[..., Visibility]) -> None:
    """Add an attention pattern, for `model.visibility=name`, or `name(8)` where `pattern` is a function of whole numbers."""
    from regard.model.visibility import Visibility
    from regard.model.visibility.parse import PATTERNS, PATTERNS_WITH_NUMBERS

    key = name.replace("-", "_")
    _new("visibility", key, [*PATTERNS, *PATTERNS_WITH_NUMBERS])
    if isinstance(pattern, Visibility):
        PATTERNS[key] = pattern
    else:
        PATTERNS_WITH_NUMBERS[key] = pattern


def position(
    name: str, build: Callable[[BodyConfig, int, bool], Position], does: Literal["rotates", "biases"] = "biases"
) -> None:
    """Add a position scheme inside attention, for `model.position=name`.

    `build` takes the settings of the model, the number of layers and whether the stack is causal; `does` says which hook of
    `Placement` the scheme implements: `rotate` or `bias`.
    """
    from regard.model.position import ABSOLUTE, SCHEMES, Scheme

    _new("position", name, [*ABSOLUTE, *SCHEMES])
    SCHEMES[name] = Scheme(build, does)


def objective(name: str, config: type, build: Callable[[Any], Objective], tasks: Sequence[str]) -> None:
    """Add an objective, for `objective.name=name` in recipes of these tasks.

    `config` is a frozen dataclass with the settings of the section, among them `name`; `build` takes one of it and returns a
    function (model, batch) -> Loss.
    """
    from regard.objectives import LOSSES, OBJECTIVES
    from regard.runs.task import TASKS

    _new("objective", name, OBJECTIVES)
    OBJECTIVES.register(name, config)
    LOSSES.register(name, build)
    for task in _tasks(tasks):
        TASKS.register(task, replace(TASKS[task], objectives=(*TASKS[task].objectives, name)))


def metric(name: str, score: Callable[[Sequence[str], Any], float], tasks: Sequence[str] = ()) -> None:
    """Add a metric that training and `regard evaluate` report for these tasks, or for all that have outputs.

    `score` takes the outputs, a text for each example, and the test set as the task reads it.
    """
    from regard.metrics import PLUGIN_METRICS, PluginMetric

    _new("metric", name, PLUGIN_METRICS)
    PLUGIN_METRICS[name] = PluginMetric(score, tuple(_tasks(tasks)))


def family(value: Family) -> None:
    """Add a model family, for `model.family=NAME` in recipes of every task whose needs its capabilities meet."""
    from regard.families import FAMILIES

    _new("family", value.name, FAMILIES)
    FAMILIES.register(value.name, value)


def task(value: Task) -> None:
    """Add a task, for `task.name=NAME`."""
    from regard.runs.task import TASKS

    _new("task", value.name, TASKS)
    TASKS.register(value.name, value)


def _new(kind: str, name: str, taken: Iterable[str]) -> None:
    """Refuse a name that is taken, and remember the file that called."""
    if not name.replace("-", "_").isidentifier():
        raise UserError(f"a {kind} cannot be called {name!r}; give letters, digits, _ and -, such as my_{kind}.")
    if name in taken:
        raise UserError(f"there is a {kind} {name!r} already; give yours another name.")
    REGISTERED[kind, name] = Path(sys._getframe(2).f_code.co_filename).name


def _tasks(names: Sequence[str]) -> Sequence[str]:
    from regard.runs.task import TASKS

    for name in names:
        if name not in TASKS:
            raise UserError(f"there is no task {name!r}{nearest(name, TASKS)}")
    return names

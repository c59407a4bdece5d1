"""Routes of a predictor over HTTP: paths with the bodies of their requests and answers, declared by each task's own package.

A predictor that can be served has a method `routes`. `regard serve` mounts whatever the models at hand declare, and knows no task
by name. Bodies are pydantic models, so the modules that declare routes are imported by `regard serve` alone.

An `AnswerRoute` is a single pass over inputs, which the engine batches with those of other requests. A `WriteRoute` is a text
that is written token by token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:  # pydantic comes with an extra
    from pydantic import BaseModel


@dataclass(frozen=True, kw_only=True)
class Route:
    path: str  # behind /v1, such as /classify
    title: str
    body: type[BaseModel]
    answer: type[BaseModel]
    example: dict[str, Any]  # a body that this model answers, for the documentation


@dataclass(frozen=True, kw_only=True)
class AnswerRoute(Route):
    """A path whose answer needs one pass."""

    inputs: Callable[[Any, Any], Sequence[Any]]  # takes predictor and body; refuses what cannot be read
    batch: Callable[[Any, Sequence[Any]], Sequence[Any]]  # takes the predictor and inputs of any requests
    length: Callable[[Any], int]  # of one input
    outputs: Callable[
        [Any, Any, Sequence[Any]], dict[str, Any]
    ]  # takes predictor, body and results; returns fields of the answer
    attention: Callable[[Any, Any], dict[str, Any]] | None = (
        None  # takes predictor and input; returns the weights beside an answer
    )


@dataclass(frozen=True, kw_only=True)
class WriteRoute(Route):
    """A path whose answer is a text that the model writes."""

    sources: Callable[[Any, Any], Sequence[Any]]  # takes predictor and body; returns texts, or open pictures
    attention: Callable[[Any, Any], dict[str, Any]] | None = None  # takes predictor and source


@runtime_checkable
class Serves(Protocol):
    """Has answers for paths of its own."""

    def routes(self) -> Sequence[Route]: ...

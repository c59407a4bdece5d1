"""What the page may ask, and within which bounds: every field is checked before anything is computed."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1, max_length=60_000)]
Name = Annotated[str, Field(min_length=1, max_length=400)]
Step = Annotated[int | None, Field(ge=0, le=10**9)]
Count = Annotated[int, Field(ge=0, le=10**6)]


class Question(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class LookAt(Question):
    run: Name
    text: Text
    target: Annotated[str | None, Field(max_length=60_000)] = None
    step: Step = None


class Off(Question):
    """Heads switched off, by the name of their attention."""

    off: Annotated[dict[Name, Annotated[list[Count], Field(max_length=512)]], Field(max_length=512)]


class Grow(Question):
    run: Name
    text: Text
    beam: Annotated[int, Field(ge=1, le=12)] = 4
    forced: Annotated[list[Count], Field(max_length=512)] = []
    word: Annotated[str, Field(max_length=200)] = ""  # to come after those


class Align(Question):
    """What a node of the tree looked at: the tokens up to and with it."""

    run: Name
    text: Text
    tokens: Annotated[list[Count], Field(min_length=1, max_length=512)]


class Uses(Question):
    run: Name
    word: Annotated[str, Field(min_length=1, max_length=200)]
    sentences: Annotated[list[Text], Field(min_length=1, max_length=60)]


class Analogy(Question):
    run: Name
    minus: Annotated[str, Field(min_length=1, max_length=200)]
    base: Annotated[str, Field(min_length=1, max_length=200)]
    plus: Annotated[str, Field(min_length=1, max_length=200)]

"""A table whose entries are imported when they are asked for, so that a command waits only for what it uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TypeVar

Entry = TypeVar("Entry")


class LazyRegistry(Mapping[str, Entry]):
    """A table from names to objects of modules, written `module:attribute`. Names are listed and compared without any import."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places, self._registered = dict(places), dict[str, Entry]()

    def register(self, name: str, entry: Entry) -> None:
        """Add an entry that is imported already, such as a plugin's."""
        self._places.setdefault(name, "")
        self._registered[name] = entry

    def __getitem__(self, name: str) -> Entry:
        if name in self._registered:
            return self._registered[name]
        module, _, attribute = self._places[name].partition(":")
        found: Entry = getattr(import_module(module), attribute)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

"""A queue that is fair between keys: a key with few requests does not wait behind one with many.

The keys take turns, and the work of one key goes in order.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Work of many keys."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()  # the first key is next
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return (item for items in self._waiting.values() for item in items)

    def push(self, key: str, item: T) -> None:
        self._waiting.setdefault(key, deque()).append(item)
        self._count += 1

    def peek(self) -> T | None:
        """Return what `pop` would return, if anything waits."""
        return next(iter(self._waiting.values()))[0] if self._waiting else None

    def pop(self) -> T:
        """Take the oldest work of the key whose turn it is."""
        key, items = self._waiting.popitem(last=False)
        item = items.popleft()
        if items:
            self._waiting[key] = items  # behind the other keys
        self._count -= 1
        return item

    def remove(self, gone: Callable[[T], bool]) -> list[T]:
        """Remove and return all work of which this holds."""
        found = [item for item in self if gone(item)]
        if found:
            for key, items in list(self._waiting.items()):
                items = deque(item for item in items if not gone(item))
                if items:
                    self._waiting[key] = items
                else:
                    del self._waiting[key]
            self._count -= len(found)
        return found

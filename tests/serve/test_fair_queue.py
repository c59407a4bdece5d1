"""The fair queue: keys take turns, and nothing is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from regard.serve.fair_queue import FairQueue


def test_keys_take_turns_and_each_keeps_its_order() -> None:
    queue = FairQueue[str]()
    for item in ("a1", "a2", "a3", "b1", "c1", "b2"):
        queue.push(item[0], item)
    assert queue.peek() == "a1"
    assert [queue.pop() for _ in range(2)] == ["a1", "b1"]
    assert queue.remove(lambda item: item == "c1") == ["c1"]
    queue.push("d", "d1")
    assert [queue.pop() for _ in range(len(queue))] == ["a2", "b2", "d1", "a3"]
    assert queue.peek() is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9))))
def test_everything_comes_out_once_and_no_key_waits_for_two_turns_of_another(items: list[tuple[str, int]]) -> None:
    queue = FairQueue[tuple[int, str]]()
    for n, (key, _) in enumerate(items):
        queue.push(key, (n, key))
    out = list[tuple[int, str]]()
    while queue:
        waiting = {key for _, key in queue}
        turn = [queue.pop() for _ in waiting]
        assert {key for _, key in turn} == waiting
        out += turn
    assert sorted(out) == [(n, key) for n, (key, _) in enumerate(items)]

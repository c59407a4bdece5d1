"""Threads that work on a list side by side: nothing is lost, nothing done twice, and the order is that of the list."""

import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.training.config import WordVectorTrainConfig
from regard.training.word_vectors import workers


@given(st.integers(1, 4), st.lists(st.integers(), max_size=12))
@settings(max_examples=20)
def test_what_is_found_comes_in_the_order_of_the_list(threads, items):
    done = []
    with workers(WordVectorTrainConfig(threads=threads)) as crew:
        found = crew.map(lambda item: (done.append(item), -item)[1], items)
    assert found == [-item for item in items]
    assert sorted(done) == sorted(items)


def test_threads_work_at_the_same_time_and_torch_uses_each_as_one():
    meet = threading.Barrier(3, timeout=600)

    def work(item):
        meet.wait()
        return threading.get_ident(), torch.get_num_threads()

    with workers(WordVectorTrainConfig(threads=3)) as crew:
        found = crew.map(work, range(3))
    assert len({thread for thread, _ in found}) == 3
    assert threading.get_ident() in {thread for thread, _ in found}
    assert {number for _, number in found} == {1}


@pytest.mark.parametrize("wrong", [0, 3])
def test_a_mistake_in_any_thread_is_heard_of(wrong):
    def work(item):
        if item == wrong:
            raise ValueError(item)

    with workers(WordVectorTrainConfig(threads=2)) as crew, pytest.raises(ValueError, match=str(wrong)):
        crew.map(work, range(4))

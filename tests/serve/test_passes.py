"""Inputs of single passes: who shares one, and who fails alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from regard.core.errors import UserError
from regard.serve.work import Answer
from tests.serve.driving import engine, run


def test_inputs_of_similar_length_share_a_pass_and_a_bad_one_fails_alone() -> None:
    passes = list[list[int]]()

    def square(predictor: Any, numbers: Sequence[int]) -> list[int]:
        passes.append(list(numbers))
        if 13 in numbers:
            raise UserError("13 has no square today; give another number.")
        return [number * number for number in numbers]

    served = engine(batch_length=40)
    numbers = [(3, 5), (4, 6), (5, 40), (13, 5), (6, 5), (7, 5), (8, 5), (9, 5), (10, 9)]
    tickets = [served.submit(Answer(inputs=number, batch=square, length=length)) for number, length in numbers]
    run(served)
    assert passes[0] == [3, 4, 13, 6, 7, 8]  # 6 of at most 6: together at most 40
    assert passes[1:] == [[3], [4], [13], [6], [7], [8], [5], [9, 10]]
    for (number, _), ticket in zip(numbers, tickets):
        if number == 13:
            with pytest.raises(UserError, match="13 has no square"):
                ticket.result(0)
        else:
            assert ticket.result(0).value == number * number


def test_a_pass_that_loses_results_is_an_error() -> None:
    served = engine()
    ticket = served.submit(Answer(inputs=1, batch=lambda predictor, numbers: [], length=1))
    run(served)
    with pytest.raises(UserError, match="1 inputs were given, and 0 results came back"):
        ticket.result(0)

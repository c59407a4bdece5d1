"""A sparse pattern that leaves nothing out of short texts is said to be `full` there, wherever somebody compares."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from regard.families.bert import BERTConfig
from regard.families.gpt import GPTConfig
from regard.model.visibility import causal, dense, full
from regard.model.visibility.combine import LONGEST, whole_up_to
from regard.model.visibility.parse import parse_visibility
from regard.tasks.notices import pattern_notice
from regard.tasks.registry import open_run
from tests.command import regard, tiny, trained

SAID = "leaves out nothing"


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(
    "pattern",
    ["window(3)", "bigbird(4)", "longformer(8)", "block(5)", "strided(3)", "causal & window(4)", "last(4)"],
)
def test_up_to_there_every_pair_is_seen_and_then_one_is_not(pattern: str, back: bool) -> None:
    seen, base = parse_visibility(pattern), causal if back else full
    most = whole_up_to(seen, back=back)

    def left_out(tokens: int) -> int:
        queries = torch.arange(tokens)
        both = (dense(each.with_length(tokens), queries, tokens)[0, 0].expand(tokens, tokens) > 0 for each in (base, seen))
        wanted, found = both
        return int((wanted & ~found).sum())

    assert [left_out(tokens) for tokens in range(1, most + 1)] == [0] * most
    assert left_out(most + 1) > 0


def test_what_leaves_out_nothing_at_all_has_no_end() -> None:
    assert whole_up_to(full) == whole_up_to(causal, back=True) == whole_up_to(parse_visibility("window(5000)")) == LONGEST


def test_it_is_said_of_patterns_alone() -> None:
    bert = BERTConfig(width=8, heads=2, layers=1, feedforward=8)
    assert pattern_notice(bert) is None
    assert pattern_notice(GPTConfig(width=8, heads=2, layers=1, feedforward=8)) is None
    assert pattern_notice(object()) is None
    assert pattern_notice(replace(bert, visibility="bigbird(4)")) == (
        "bigbird(4) leaves out nothing of a text of up to 28 tokens: there it is the same as full"
    )
    assert pattern_notice(replace(bert, visibility="strided(4)")) is None
    assert "at least 2,048" in str(pattern_notice(replace(bert, visibility="window(5000)")))


def test_explain_and_a_dry_run_say_it(tmp_path: Path) -> None:
    explained = regard("explain", tiny(), "model.visibility=bigbird(4)")
    assert "bigbird(4) leaves out nothing of a text of up to 28 tokens" in explained.out
    assert SAID not in regard("explain", tiny()).out
    planned = regard("train", tiny(), "model.visibility=bigbird(4)", "--dry-run", "--out", tmp_path / "run", "--device", "cpu")
    assert "visibility        bigbird(4) leaves out nothing" in planned.out + planned.err
    assert SAID not in regard("train", tiny(), "--dry-run", "--out", tmp_path / "run", "--device", "cpu").out


@pytest.mark.parametrize(("visibility", "said"), [("full", False), ("bigbird(4)", True), ("window(2)", False)])
def test_lens_says_it_of_the_text_that_is_shown(visibility: str, said: bool) -> None:
    answers = open_run(trained(), "cpu")
    answers.model.config = replace(answers.model.config, visibility=visibility)
    with (
        patch("regard.commands.views.open_run", return_value=answers),
        patch("regard.commands.lens.open_run", return_value=answers),
    ):
        found = [regard("lens", trained(), "the cat sees the dog .", *more) for more in ([], ["--show", "heads"])]
    for result in found:
        assert result.code == 0, result.err
        assert (SAID in result.err) is said
        assert SAID not in result.out

"""Restoring text: blanks of any name are filled in, other noise is undone, and what cannot be read is refused."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest

from regard.core.errors import UserError
from regard.tasks.masked_lm.masking import MaskedTest
from regard.tasks.registry import open_run
from regard.tasks.seq2seq_denoising.predict import Restorer, with_typed_sentinels
from regard.text.tokenizer import train_tokenizer
from tests.tasks.tiny_noise import data, trained

ANIMALS, VERBS = ("cat", "dog", "bird", "horse"), ("sees", "hears", "likes")


@cache
def restorer(noise: str) -> Restorer:
    found = open_run(trained(noise), "cpu")
    assert isinstance(found, Restorer)
    return found


@pytest.mark.parametrize("blank", ["[MASK]", "<mask>", "<extra_id_0>", "<extra_id_7>"])
def test_a_blank_is_filled_in_whatever_it_is_called(blank: str) -> None:
    filled = restorer("span_corruption")(f"the cat {blank} the dog.")
    assert filled == restorer("span_corruption")("the cat [MASK] the dog.")
    assert filled.startswith("the cat ")
    assert filled.endswith(" the dog.")
    assert len(filled) > len("the cat  the dog.")
    assert set(re.findall("[a-z]+", filled)) <= {"the", *ANIMALS, *VERBS}


def test_a_model_that_writes_the_whole_text_fills_in_too() -> None:
    written = restorer("permutation+infilling")("the cat [MASK] the dog.")
    assert written.split()[0] == "the"
    assert any(verb in written for verb in VERBS)


def test_lines_and_json() -> None:
    told: list[str] = []
    restorer("span_corruption").predict(["the cat [MASK] the dog.", ""], None, False, told.append)
    assert len(told) == 2
    assert told[1] == "\n"
    told.clear()
    restorer("span_corruption").predict(["the cat [MASK] the dog."], None, True, told.append)
    assert json.loads(told[0])["outputs"][0]["text"].startswith("the cat")


@pytest.mark.parametrize(
    ("noise", "text", "said"),
    [
        ("span_corruption", "the cat sees the dog.", "has no blank to fill in"),
        ("span_corruption", "a [MASK] " * 101, "has 101 blanks, and this vocabulary has names for 100"),
        ("span_corruption", "the [MASK] " + "cat " * 20_000, "can be read; split it"),
        ("permutation+infilling", "the cat " * 20_000, "can be read; split it"),
    ],
)
def test_refused(noise: str, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        restorer(noise)(text)


def test_sentinels_are_found_only_where_they_may_be_typed() -> None:
    tokenizer = train_tokenizer("bpe", ["the cat sees the dog"], 60).with_sentinels(3)
    typed = "the <extra_id_1> dog"
    assert not set(tokenizer.encode(typed)) & set(tokenizer.sentinels())
    assert [i for i in with_typed_sentinels(tokenizer).encode(typed) if i in tokenizer.sentinels()] == tokenizer.sentinels()[1:2]


@pytest.mark.parametrize("noise", ["span_corruption", "permutation+infilling"])
def test_it_can_be_looked_into(noise: str) -> None:
    subject = restorer(noise).subject("the cat [MASK] the dog.")
    blank = "<extra_id_0>" if noise == "span_corruption" else "<mask>"
    assert blank in [restorer(noise).tokenizer.raw.id_to_token(i) for i in subject.sides["encoder"].ids]
    assert len(subject.targets_L) == len(subject.outputs)
    (text, target), *_ = restorer(noise).test_texts(MaskedTest((str(data()),), "text"))
    assert "[MASK]" in text
    assert target is None

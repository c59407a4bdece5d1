"""The slope of the loss at a gate is what a small change of the gate does, by attention, head and text."""

import pytest
import torch

from regard.core.errors import UserError
from regard.lens.analyses.importance import importance, leave_one_out, slopes
from regard.model.probe import attentions, probe
from tests.lens.some_subjects import SOME, subject

SMALL = 1e-2


@pytest.mark.parametrize("name", SOME)
def test_slopes_are_differences(name):
    found = subject(name)
    measured = slopes(found)
    assert {attention: len(row) for attention, row in measured.items()} == {
        n: a.heads for n, a in attentions(found.model).items()
    }
    for attention, row in list(measured.items())[-2:]:
        for head in range(min(2, len(row))):
            ends = []
            for step in (-SMALL, SMALL):
                gate = torch.ones(len(row))
                gate[head] += step
                with torch.no_grad(), probe(found.model, gates={attention: gate}):
                    ends.append(float(found.nll()))
            assert float(row[head]) == pytest.approx(abs(ends[1] - ends[0]) / (2 * SMALL), rel=0.05, abs=2e-4)


def test_the_mean_over_texts_and_by_layer():
    texts = [subject("translator"), subject("translator", "le chat voit le chien .")]
    parts = [slopes(text) for text in texts]
    result = importance(texts)
    for name, row in result.scores.items():
        expected = sum(abs(part[name]) for part in parts) / 2
        torch.testing.assert_close(torch.tensor(row), expected, atol=1e-6, rtol=1e-4)
    ranked = result.ranked()
    assert ranked == sorted(ranked, key=lambda row: -row[2])
    for row in importance(texts, by_layer=True).scores.values():
        assert torch.tensor(row).norm() == pytest.approx(1)
    assert result.texts == 2
    assert "mean over 2 texts" in result.lines()[1]
    assert len(result.lines()) == 4 + 6
    assert result.as_dict()["heads"][0]["importance"] == ranked[0][2]
    assert result.figure().axes


def test_leave_one_out_is_ablation():
    from regard.lens.analyses.ablation import ablation

    found = subject("translator")
    assert leave_one_out([found]).scores == {name: pytest.approx(tuple(row)) for name, row in ablation(found).field().items()}


def test_no_text_is_refused():
    with pytest.raises(UserError, match="no text"):
        importance([])

"""A student's loss is what its papers say, whatever the batch looks like; and its teacher is only asked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.core.errors import UserError
from regard.data.batching.labelled import UNLABELLED, LabelledTexts, make_batch
from regard.data.batching.pairs import Ragged
from regard.families.bert import BERTConfig
from regard.families.classifier import Classifier, classifier
from regard.families.gpt import GPTConfig
from regard.objectives.distillation import DistillationConfig, DistillationLoss, cosine_loss, soft_loss

VOCABULARY, CLASSES = 20, 3
SIZES = {"width": 16, "heads": 2, "feedforward": 32, "maximum_length": 32}
FAMILIES = {"bert": BERTConfig, "gpt": GPTConfig}
WHOLE = DistillationConfig(teacher="somebody", temperature=3.0, soft=0.7, hard=0.4, cosine=0.2)


def model(family: str, layers: int, seed: int, dropout: float = 0.0) -> Classifier:
    found = classifier(FAMILIES[family](layers=layers, dropout=dropout, **SIZES), VOCABULARY, CLASSES, seed)
    with torch.no_grad():
        for weights in found.parameters():
            weights.add_(torch.randn(weights.shape, generator=torch.Generator().manual_seed(seed)), alpha=0.2)
    return found


def texts(labels: list[int], seed: int = 0) -> LabelledTexts:
    random = np.random.default_rng(seed)
    rows = [random.integers(4, VOCABULARY, random.integers(3, 9)).tolist() for _ in labels]
    return LabelledTexts(Ragged(rows), np.array([len(row) for row in rows]), np.array(labels))


def loss(
    config: DistillationConfig, student: Classifier, teacher: Classifier, data: LabelledTexts, packed: bool = False
) -> Tensor:
    return DistillationLoss(config, teacher)(student, make_batch(data, np.arange(len(data)), packed)).total


# ------------------------------------------------------------------------------------------------------------------ the terms


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=2, max_size=5), st.floats(0.5, 8))
def test_soft_is_the_divergence_of_softened_distributions(scores: list[tuple[float, float]], temperature: float) -> None:
    said, aimed = ([math.exp(score / temperature) for score in side] for side in zip(*scores))
    p, q = ([odds / sum(aimed) for odds in aimed], [odds / sum(said) for odds in said])
    by_hand = temperature**2 * sum(a * math.log(a / b) for a, b in zip(p, q))
    student, teacher = torch.tensor(scores, dtype=torch.float64).T[:, None]
    assert soft_loss(student, teacher, temperature).item() == pytest.approx(by_hand, abs=1e-9)


def test_cosine_is_averaged_over_each_texts_own_tokens() -> None:
    data = texts([0, 1, 2, 0])
    x, aim = (torch.randn(4, int(data.ids.lengths.max()), 16, generator=torch.Generator().manual_seed(n)) for n in (1, 2))
    by_hand = []
    for row, length in enumerate(data.ids.lengths):
        pairs = [(x[row, n], aim[row, n]) for n in range(length)]
        by_hand.append(sum(1 - float(a @ b) / math.sqrt(float(a @ a) * float(b @ b)) for a, b in pairs) / length)
    assert cosine_loss(x, aim, torch.from_numpy(data.ids.lengths)).tolist() == pytest.approx(by_hand, abs=1e-5)


def test_the_whole_is_the_weighted_sum_of_its_terms() -> None:
    student, teacher, data = model("bert", 1, 1).train(), model("bert", 2, 2).eval(), texts([0, 2, 1, 1, 0])
    batch = make_batch(data, np.arange(5))
    said, aimed = (each(batch.ids_BL, batch.words, batch.segments_BL) for each in (student, teacher))
    hard = -said.log_softmax(-1)[torch.arange(5), batch.labels_N].sum()
    x, aim = (each.hidden(batch.ids_BL, batch.words, batch.segments_BL) for each in (student, teacher))
    expected = 0.7 * soft_loss(said, aimed, 3.0).sum() + 0.4 * hard + 0.2 * cosine_loss(x, aim, batch.words).sum()
    assert loss(WHOLE, student, teacher, data).item() == pytest.approx(expected.item(), rel=1e-5)


# ---------------------------------------------------------------------------------------------------------------- any batch


@settings(max_examples=15)
@given(
    st.sampled_from(["bert", "gpt"]), st.lists(st.sampled_from([UNLABELLED, 0, 1, 2]), min_size=1, max_size=6), st.integers(0, 99)
)
def test_a_batch_loses_what_its_texts_lose_alone_packed_or_not(family: str, labels: list[int], seed: int) -> None:
    student, teacher, data = model(family, 1, 1).train(), model(family, 2, 2), texts(labels, seed)
    whole = DistillationLoss(WHOLE, teacher)
    alone = sum(whole(student, make_batch(data, np.array([n]))).total.item() for n in range(len(data)))
    for packed in (False, True):
        assert loss(WHOLE, student, teacher, data, packed).item() == pytest.approx(alone, rel=1e-4, abs=1e-5)


def test_a_text_without_a_label_counts_softly_only() -> None:
    student, teacher = model("bert", 1, 1).train(), model("bert", 2, 2)
    only_soft = replace(WHOLE, hard=0.0)
    bare, labelled = texts([UNLABELLED] * 4), texts([0, 1, 2, 0])
    assert loss(WHOLE, student, teacher, bare).item() == pytest.approx(
        loss(only_soft, student, teacher, labelled).item(), rel=1e-6
    )
    assert loss(WHOLE, student, teacher, labelled) > loss(WHOLE, student, teacher, bare) + 0.1


@pytest.mark.parametrize("packed", [False, True])
def test_a_student_equal_to_its_teacher_has_nothing_to_learn(packed: bool) -> None:
    student, teacher = model("bert", 2, 1).train(), model("bert", 2, 1, dropout=0.5)
    found = loss(replace(WHOLE, hard=0.0), student, teacher, texts([0, 1, UNLABELLED]), packed)
    assert found.item() == pytest.approx(0.0, abs=1e-5)  # and the teacher's dropout is off


# --------------------------------------------------------------------------------------------------------------- the teacher


def test_gradient_reaches_the_student_alone_and_the_teacher_stays_as_it_was() -> None:
    student, teacher, data = model("bert", 1, 1).train(), model("bert", 2, 2, dropout=0.5).train(), texts([0, 1, 2])
    before = {name: weights.clone() for name, weights in teacher.state_dict().items()}
    loss(WHOLE, student, teacher, data).backward()
    assert all(weights.grad is not None and weights.grad.abs().sum() > 0 for weights in student.classes.parameters())
    assert all(weights.grad is not None for weights in student.body.get_submodule("encoder").parameters())
    assert all(weights.grad is None for weights in teacher.parameters())
    assert all(torch.equal(before[name], weights) for name, weights in teacher.state_dict().items())
    assert not any("teacher" in name for name in student.state_dict())


def test_a_step_towards_the_teacher_brings_the_two_together() -> None:
    student, teacher, data = model("bert", 1, 1).train(), model("bert", 2, 2), texts([UNLABELLED] * 8)
    optimizer, config = torch.optim.Adam(student.parameters(), 1e-2), replace(WHOLE, hard=0.0)
    losses = []
    for _ in range(12):
        losses.append(loss(config, student, teacher, data))
        losses[-1].backward()
        optimizer.step()
        optimizer.zero_grad()
    assert losses[-1] < 0.5 * losses[0]


def test_when_it_is_judged_labels_and_agreement_are_counted() -> None:
    student, teacher, data = model("bert", 1, 1).eval(), model("bert", 2, 2), texts([0, 1, 2, 1, 0, 2])
    batch = make_batch(data, np.arange(6))
    found = DistillationLoss(WHOLE, teacher)(student, batch)
    said, aimed = (each(batch.ids_BL, batch.words, batch.segments_BL) for each in (student, teacher))
    assert found.count == 6
    assert found.parts["accuracy"].item() == (said.argmax(-1) == batch.labels_N).sum().item()
    assert found.parts["agrees"].item() == (said.argmax(-1) == aimed.argmax(-1)).sum().item()
    assert found.parts["nll"].item() == pytest.approx(
        torch.nn.functional.cross_entropy(said, batch.labels_N).item() * 6, rel=1e-5
    )


# -------------------------------------------------------------------------------------------------------------- its settings


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"teacher": ""}, "objective.teacher is empty"),
        ({"temperature": 0.0}, "objective.temperature=0.0"),
        ({"temperature": float("nan")}, "objective.temperature=nan"),
        ({"soft": -1.0}, "objective.soft=-1.0"),
        ({"hard": float("inf")}, "objective.hard=inf"),
        ({"cosine": float("nan")}, "objective.cosine=nan"),
        ({"soft": 0.0, "cosine": 0.0}, "nothing to teach"),
    ],
)
def test_what_makes_no_loss_is_refused(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        replace(WHOLE, **keys)

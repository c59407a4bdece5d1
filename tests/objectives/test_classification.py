"""Classification: the sum of what each text loses alone, however texts are laid out, with the words of each as one share."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.core.errors import UserError
from regard.core.packing import IGNORED
from regard.data.batching.labelled import LabelledTexts, SpecialTokens, make_batch
from regard.data.batching.pairs import Ragged
from regard.families.classifier import Classifier, classifier
from regard.families.gpt import GPTConfig
from regard.objectives.classification import ClassificationConfig, ClassificationLoss

VOCABULARY, CLASSES, ROWS = 61, 4, np.arange(5)
DRAW = np.random.default_rng(0)
IDS = [SpecialTokens(2, 1, 2).around([DRAW.integers(4, VOCABULARY, n).tolist()], 40)[0] for n in (3, 9, 1, 6, 6)]
DATA = LabelledTexts(Ragged(IDS), np.array(list(map(len, IDS))), np.array([0, 3, 1, 2, 3]))


@pytest.fixture(scope="module")
def model() -> Classifier:
    config = GPTConfig(width=32, heads=4, layers=2, feedforward=64, dropout=0.0, maximum_length=16)
    made, draw = classifier(config, VOCABULARY, CLASSES, seed=1), torch.Generator().manual_seed(3)
    for parameter in made.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=draw)
    return made


def alone(model: Classifier, smoothing: float, language: float) -> float:
    """By torch's own loss, a text at a time, the GPT asked for its words by itself."""
    total = 0.0
    for ids, label in zip(IDS, DATA.labels):
        row = torch.tensor([ids])
        logits = model(row, torch.tensor([len(ids)]))
        total += F.cross_entropy(logits, torch.tensor([label]), label_smoothing=smoothing).item()
        total += language * F.cross_entropy(model.body(row)[0, :-1], row[0, 1:]).item()
    return total


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("smoothing", "language"), [(0.0, 0.0), (0.1, 0.0), (0.0, 0.5), (0.2, 2.0)])
def test_a_batch_loses_what_its_texts_lose_alone(model: Classifier, packed: bool, smoothing: float, language: float) -> None:
    loss = ClassificationLoss(ClassificationConfig(smoothing=smoothing, language=language))
    found = loss(model.train(), make_batch(DATA, ROWS, packed))
    assert found.count == len(ROWS)
    assert found.total.item() == pytest.approx(alone(model, smoothing, language), rel=1e-5)


@pytest.mark.parametrize("packed", [False, True])
def test_micro_batches_add_up(model: Classifier, packed: bool) -> None:
    loss = ClassificationLoss(ClassificationConfig(language=0.5))
    whole = loss(model.train(), make_batch(DATA, ROWS, packed)).total
    parts = [loss(model, make_batch(DATA, rows, packed)).total for rows in (ROWS[:2], ROWS[2:])]
    torch.testing.assert_close(sum(parts), whole, atol=1e-4, rtol=1e-5)


def test_gradients_of_both_layouts_agree(model: Classifier) -> None:
    found = []
    for packed in (False, True):
        model.zero_grad()
        ClassificationLoss(ClassificationConfig(language=0.5))(model.train(), make_batch(DATA, ROWS, packed)).total.backward()
        found.append({name: parameter.grad.clone() for name, parameter in model.named_parameters()})
    for name, grad in found[0].items():
        torch.testing.assert_close(found[1][name], grad, atol=1e-4, rtol=1e-4, msg=name)


def test_validation_has_the_plain_loss_and_what_is_right(model: Classifier) -> None:
    loss = ClassificationLoss(ClassificationConfig(smoothing=0.3, language=0.5))
    with torch.no_grad():
        found = loss(model.eval(), make_batch(DATA, ROWS))
        logits = torch.cat([model(torch.tensor([ids]), torch.tensor([len(ids)])) for ids in IDS])
    assert found.parts["nll"].item() == pytest.approx(alone(model, 0.0, 0.0), rel=1e-5)
    assert found.parts["accuracy"].item() == (logits.argmax(-1).numpy() == DATA.labels).sum()


@pytest.mark.parametrize(
    ("key", "value"),
    [("smoothing", 1.0), ("smoothing", -0.1), ("language", -1.0), ("language", float("nan")), ("r_drop", -1.0)],
)
def test_settings_that_cannot_be(key: str, value: float) -> None:
    with pytest.raises(UserError, match=rf"objective\.{key}={value}"):
        ClassificationConfig(**{key: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("packed", [False, True])
def test_agreement_pulls_two_passes_together(packed: bool) -> None:
    """By torch's own divergence; and of passes that are alike nothing is left of it."""
    config = GPTConfig(width=32, heads=4, layers=1, feedforward=64, dropout=0.4, maximum_length=16)
    model, batch = classifier(config, VOCABULARY, CLASSES, seed=1).train(), make_batch(DATA, ROWS, packed)
    inputs, real = (batch.ids_BL, batch.words, batch.segments_BL), batch.labels_N != IGNORED
    torch.manual_seed(7)
    p, q = (model.scores(model.hidden(*inputs), batch.words)[real].log_softmax(-1) for _ in range(2))
    assert (p - q).abs().max() > 0.01
    nll = (F.nll_loss(p, batch.labels_N[real], reduction="sum") + F.nll_loss(q, batch.labels_N[real], reduction="sum")) / 2
    pulled = F.kl_div(p, q, reduction="sum", log_target=True) + F.kl_div(q, p, reduction="sum", log_target=True)
    torch.manual_seed(7)
    found = ClassificationLoss(ClassificationConfig(r_drop=3.0))(model, batch).total
    torch.testing.assert_close(found, nll + 3.0 * pulled / 4, atol=1e-5, rtol=1e-5)
    still = ClassificationLoss(ClassificationConfig(r_drop=3.0))
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    plain = ClassificationLoss(ClassificationConfig())(model, batch).total
    torch.testing.assert_close(still(model, batch).total, plain, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_classes_count_by_their_weights(model: Classifier, packed: bool, smoothing: float) -> None:
    weights_C = torch.tensor([0.5, 2.0, 1.0, 3.0])
    loss = ClassificationLoss(ClassificationConfig(smoothing=smoothing, balance="weights"), weights_C)
    expected = validated = 0.0
    with torch.no_grad():
        for ids, label in zip(IDS, DATA.labels):
            logits, aim = model(torch.tensor([ids]), torch.tensor([len(ids)])), torch.tensor([label])
            expected += weights_C[label].item() * F.cross_entropy(logits, aim, label_smoothing=smoothing).item()
            validated += weights_C[label].item() * F.cross_entropy(logits, aim).item()
    assert loss(model.train(), make_batch(DATA, ROWS, packed)).total.item() == pytest.approx(expected, rel=1e-5)
    assert loss(model.eval(), make_batch(DATA, ROWS, packed)).parts["nll"].item() == pytest.approx(validated, rel=1e-5)

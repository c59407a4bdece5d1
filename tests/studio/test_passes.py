"""A look keeps references and proof: what is rebuilt from it is what ran, and when it is not, that is told."""

from __future__ import annotations

from threading import Lock

import pytest
import torch

from regard.core.errors import UserError
from regard.model.probe import probe
from regard.studio.passes import PassCache, PassRequest, check, contexts, run_pass
from tests.studio.tiny_session import TinySession, tiny_pass


def test_steps_are_the_models_own_probabilities() -> None:
    found = tiny_pass()
    with torch.no_grad():
        logprob_LV = found.subject.forward(1)[0].log_softmax(-1)
    targets = found.subject.targets_L.tolist()
    for step, logprob_V, target in zip(found.steps, logprob_LV, targets):
        assert step["nll"] == pytest.approx(-float(logprob_V[target]), abs=1e-5)
        assert step["rank"] == 1 + int((logprob_V > logprob_V[target]).sum())
        assert [one["id"] for one in step["top"]] == logprob_V.topk(6).indices.tolist()
    assert found.as_dict()["nll"] == pytest.approx(found.subject.nll()[0].item(), abs=1e-5)


def test_what_is_rebuilt_is_what_ran() -> None:
    found = tiny_pass()
    assert found.faith.holds
    assert found.faith.largest < 1e-5
    assert found.faith.rows == 2 * 5 + 4 * 6  # all rows of two attentions in the encoder, and of four in the decoder
    assert found.as_dict()["faith"]["holds"] is True


def test_a_kernel_that_does_otherwise_is_told() -> None:
    subject = TinySession().subject("w5 w6 w7 w8", None)
    with torch.no_grad(), probe(subject.model) as seen, contexts(subject.model) as given:
        subject.forward(1)
    assert check(seen, given).holds
    given["decoder.1.cross"] = given["decoder.1.cross"].clone()
    given["decoder.1.cross"][0, -1, 3] += 0.1 * given["decoder.1.cross"].abs().max()
    assert not check(seen, given).holds


def test_no_hook_and_no_probe_stays_behind() -> None:
    session = TinySession()
    tiny_pass(session=session)
    for module in session.model.modules():
        assert not module._forward_pre_hooks
        assert not module._forward_hooks
        assert getattr(module, "probe", None) is None


def test_the_oldest_is_let_go_and_the_newest_never() -> None:
    kept = PassCache(room=10**9, most=2)
    first, second, third = (tiny_pass(f"w{n} w6") for n in (5, 6, 7))
    for one in (first, second):
        kept.keep(one)
    assert kept.get(first.asked.id) is first
    kept.keep(third)
    assert kept.get(second.asked.id) is None
    assert kept.get(first.asked.id) is first
    small = PassCache(room=1, most=9)
    for one in (first, second):
        small.keep(one)
    assert small.get(first.asked.id) is None
    assert small.get(second.asked.id) is second


def test_what_was_asked_names_the_look() -> None:
    asked = [
        PassRequest("a", "b"),
        PassRequest("a", "c"),
        PassRequest("a", "b", "c"),
        PassRequest("a", "b", None, 3),
        PassRequest("c", "b"),
    ]
    assert len({one.id for one in asked}) == len(asked)
    assert PassRequest("a", "b").id == PassRequest("a", "b").id


def test_an_unknown_attention_is_refused() -> None:
    with pytest.raises(UserError, match=r"decoder\.0\.cross"):
        tiny_pass().attention("decoder.9.cross")


def test_a_text_longer_than_studio_takes_is_refused() -> None:
    with pytest.raises(UserError, match="8,192"):
        run_pass(PassRequest("tiny", " ".join(["w5"] * 8200), "w5"), TinySession(), Lock())

"""Work for the engine from the fields of a request: which search, how long, how many, which JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from regard.decode.config import BeamSettings, DecodeConfig, Sampling
from regard.serve.bridge import Asked
from regard.serve.errors import Refused
from regard.serve.work import Generate, Sample

LOWEST = -9999.0  # as OpenAI writes minus infinity
FILTERS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


def method_of(config: DecodeConfig, given: dict[str, Any], n: int) -> Sampling | BeamSettings | None:
    """Return the search that a request asks for; None: the run's own.

    A request that names a setting of sampling samples, with the run's own settings for what it leaves out; one that names a beam,
    the same for a beam. Several texts need one of them: a run that samples by itself samples, one with a beam returns the best.
    """
    filters = {name: given[name] for name in FILTERS if given.get(name) is not None}
    beams = {name: given[name] for name in ("beam", "length_penalty") if given.get(name) is not None}
    if filters and beams:
        raise Refused(f"{next(iter(filters))} is for sampling and {next(iter(beams))} for a beam search; leave one of them out.")
    own = config.method
    if beams or (n > 1 and not filters and isinstance(own, BeamSettings)):
        base = own if isinstance(own, BeamSettings) else BeamSettings(length_penalty=config.length_penalty)
        width = beams.get("beam", max(base.beam, n))
        if n > width:
            raise Refused(f"n={n} texts were asked for, but beam={width} finds {width} at most; widen the beam.", param="n")
        return replace(base, beam=width, n_best=n, length_penalty=beams.get("length_penalty", base.length_penalty))
    if filters or n > 1:
        base_sampling = own if isinstance(own, Sampling) and own.temperature > 0 else Sampling()
        found = replace(base_sampling, **filters)
        if n > 1 and found.temperature == 0:
            raise Refused(f"n={n} texts were asked for, but at temperature 0 all are the same; raise temperature.", param="n")
        return found
    return None


def generate(asked: Asked, source: Any, given: dict[str, Any], **more: Any) -> Generate:
    """Return the work for one text or picture."""
    limits, n = asked.api.limits, given.get("n") or 1
    if n > limits.samples:
        raise Refused(f"n={n} texts were asked for, and {limits.samples} are written at most; lower n.", param="n")
    tokens = given.get("max_tokens")
    if tokens is not None and limits.tokens and tokens > limits.tokens:
        raise Refused(f"max_tokens={tokens:,} was asked for, and {limits.tokens:,} are written at most.", param="max_tokens")
    method = method_of(asked.model.decode, given, n)
    text = {"text": source} if isinstance(source, str) else {"text": "", "picture": source}
    return Generate(**text, max_tokens=tokens, method=method, seed=given.get("seed") or 0, n=n, **more)


def usage(prompt: int, written: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}


def joined(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Return samples as the native routes write them."""
    return [
        {"text": one.text, "score": finite(one.score), "logprob": finite(one.logprob), "finish_reason": one.finish}
        for one in samples
    ]


def finite(logprob: float) -> float:
    """Return a log-probability that JSON can write: that of what cannot come is minus infinity."""
    return max(LOWEST, logprob)

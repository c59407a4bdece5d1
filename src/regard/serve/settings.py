"""The `[decode]` settings that a request may change, and the predictor with these changes.

The same settings come again and again, and to check them takes longer than a step of a small model. So predictors are kept by the
settings that were asked for; seeds are no part of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from typing import Any

from regard.commands.loaded import with_decode
from regard.core.config import build
from regard.core.errors import UserError, nearest
from regard.decode.config import ONLY_FOR, BeamSettings, DecodeConfig, Sampling
from regard.runs.protocols import WritesRows
from regard.serve.work import EngineSettings, Generate

OF_A_REQUEST = (
    "banned_words", "prefix", "first", "no_repeat_ngram", "suppressed", "suppressed_first", "end_at_limit",
)  # fmt: skip
"""Settings of [decode] that a request may give by name; the others have a field of their own, or belong to the run."""

DEFAULTS: dict[str, Any] = {
    name: getattr(DecodeConfig, name) for name in (*ONLY_FOR, "beam", "length_penalty", "n_best", "samples")
}


@dataclass(frozen=True, eq=False)
class Writer:
    """A predictor with the settings of some requests."""

    predictor: WritesRows
    is_beam: bool
    lanes: int
    shared: DecodeConfig  # equal for writers whose requests can share a search

    @classmethod
    def of(cls, predictor: WritesRows) -> Writer:
        config = predictor.decode
        method = config.method
        lanes = method.beam if isinstance(method, BeamSettings) else 1
        return cls(predictor, isinstance(method, BeamSettings), lanes, replace(config, seed=0, samples=1, maximum_length=0))


class Writers:
    """Writers by what requests ask for; those that were used longest ago are forgotten."""

    def __init__(self, predictor: WritesRows, limits: EngineSettings, most: int = 256) -> None:
        self.predictor, self.limits, self.most = predictor, limits, most
        self.known: dict[Hashable, Writer] = {}

    def of(self, work: Generate) -> Writer:
        beam = (bool(work.stop), work.allowed is None, bool(work.logprobs))  # what beams refuse
        key = (work.method, work.n, work.max_tokens, work.minimum_tokens, "" in work.stop, beam, repr(work.settings))
        writer = self.known.pop(key, None)
        if writer is None:
            writer = Writer.of(writer_of(self.predictor, replace(work, seed=0), self.limits))
            while len(self.known) >= self.most:
                del self.known[next(iter(self.known))]
        self.known[key] = writer
        return writer


def writer_of(predictor: WritesRows, work: Generate, limits: EngineSettings) -> WritesRows:
    """Return the predictor with the settings of this request, which are checked as those of a recipe are."""
    config = predictor.decode
    for name in work.settings:
        if name not in OF_A_REQUEST:
            raise UserError(f"decode.{name} is not for a request{nearest(name, OF_A_REQUEST)}")
    if not 1 <= work.n <= limits.samples:
        raise UserError(f"n is {work.n}; it counts the texts of one request, so give 1 to {limits.samples}.")
    if work.max_tokens is not None and not 1 <= work.max_tokens <= (limits.max_tokens or work.max_tokens):
        most = f" to {limits.max_tokens:,}" if limits.max_tokens else " or more"
        raise UserError(f"max_tokens is {work.max_tokens:,}; give 1{most}.")
    if isinstance(work.method, BeamSettings) and work.method.beam > limits.beam:
        raise UserError(f"beam is {work.method.beam}; it counts texts that are kept alive, so give 1 to {limits.beam}.")
    if "" in work.stop:
        raise UserError("a stop text is empty, before which every output would end; leave it out.")
    own = {name: getattr(config, name) for name in (*DEFAULTS, "search")} | {"stop": ()}
    changes = own if work.method is None else DEFAULTS | _search(work.method)
    if changes["search"] == "beam":
        must_suit_beams(work)
        changes |= {"n_best": work.n}
    else:
        changes |= {"samples": work.n} | ({"seed": work.seed} if changes["search"] == "sample" else {})
    changes |= {"minimum_length": work.minimum_tokens or config.minimum_length}
    if work.settings:
        typed = build(DecodeConfig, dict(work.settings), "decode")
        changes |= {name: getattr(typed, name) for name in work.settings}
    changes |= {"maximum_length": work.max_tokens} if work.max_tokens is not None else {}
    changed: WritesRows = with_decode(predictor, replace(config, **changes))
    return changed


def _search(method: Sampling | BeamSettings) -> dict[str, Any]:
    if isinstance(method, BeamSettings):
        return {"search": "beam", **asdict(method)}
    values = asdict(method)
    if method.temperature == 0:
        filters = {name for name in ("top_k", "top_p", "min_p") if values[name] != getattr(Sampling, name)}
        if filters:
            raise UserError(
                f"{sorted(filters)[0]} draws from the likeliest tokens, but temperature 0 draws nothing; leave it out."
            )
        return {"search": "greedy", "repetition_penalty": method.repetition_penalty}
    return {"search": "sample", **values}


def must_suit_beams(work: Generate) -> None:
    """Refuse what only a text that is written once can have."""
    for given, what in ((work.stop, "stop"), (work.allowed, "a rule for the next token"), (work.logprobs, "logprobs above 0")):
        if given:
            raise UserError(
                f"a beam search decides about its tokens at the end, so {what} is not possible; sample, or leave it out."
            )

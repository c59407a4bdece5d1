"""Texts that translators and captioners generate: they end by themselves, are found by a search, and are printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from regard.core.terminal import Emit
from regard.decode.config import DecodeConfig
from regard.decode.cuda_graphs import CapturedGraphs
from regard.decode.request import SearchRequest
from regard.decode.search import search
from regard.model.state.protocol import EncodedInput
from regard.tasks.output_marks import OutputMarks
from regard.text.tokenizer import Tokenizer


class GeneratedText(NamedTuple):
    text: str
    score: float  # length-normalised log-probability, what the search ranks by
    logprob: float
    finished: bool
    ids: list[int]


NOTHING = GeneratedText("", 0.0, 0.0, True, [])  # what is said of nothing, in any language


def find(
    config: DecodeConfig,
    reading: EncodedInput,
    tokenizer: Tokenizer,
    limits: Sequence[int],
    numbers: Sequence[int],
    sessions: CapturedGraphs | None,
    vocabulary: int = 0,
) -> list[list[GeneratedText]]:
    """The n_best or the samples of each row that was read; `numbers` says which of all each row is, `limits` end them.

    `vocabulary` counts the rows of the output layer, where these may be more than the tokenizer's.
    """
    encode, marks = tokenizer.encode, OutputMarks.of(config, tokenizer)
    prefix = encode(config.prefix) if config.prefix else []
    request = SearchRequest.from_config(
        config,
        reading,
        numbers,
        limits=limits,
        banned_sequences=[ids for word in config.banned_words if (ids := encode(word))],
        sessions=sessions,
        **marks.request(config, vocabulary or len(tokenizer), tokenizer, prefix, len(numbers)),
    )
    return [
        [GeneratedText(tokenizer.decode(h.ids), h.score, h.logprob, h.finished, h.ids) for h in best] for best in search(request)
    ]


def tell(asked: dict[str, str], found: Sequence[GeneratedText], config: DecodeConfig, as_json: bool, emit: Emit) -> None:
    """A line, or one for each of several with its score; in JSON with what was asked."""
    if as_json:
        outputs = [{key: getattr(one, key) for key in ("text", "score", "logprob", "finished")} for one in found]
        emit(json.dumps({**asked, "outputs": outputs}, ensure_ascii=False) + "\n")
    elif config.n_best == config.samples == 1:
        emit(f"{found[0].text}\n")
    else:
        emit("".join(f"{one.score:.4f}\t{one.text}\n" for one in found))

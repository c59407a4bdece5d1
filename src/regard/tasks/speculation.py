"""Proposers of tokens while a text is written: a draft, which is another run, or the source and the text themselves.

A draft of an encoder-decoder reads the same source as the model. A lookup finds what followed the last tokens in the source, as
summaries, corrections and names in translations copy it, or in the text so far. Where source and target have a vocabulary each,
a token of the source stands for that of the target with the same spelling, if there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from regard.core.errors import UserError
from regard.data.batching.pairs import pad
from regard.decode.candidates import NO_TOKEN
from regard.decode.compact_cache import check_cache
from regard.decode.config import DecodeConfig, Sampling
from regard.decode.prefix_cache import must_keep_slots
from regard.decode.request import sample_seeds
from regard.decode.speculative import Speculation, SpeculativeInput
from regard.families import family_of
from regard.model.state.decoder import EncodedPrompt
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class SourceSpeculation:
    """Proposes tokens for the outputs of an encoder-decoder."""

    speculation: Speculation
    written: Sequence[int] | None = None  # of each source token its id in the target's vocabulary; None: they have one in common

    @torch.no_grad()
    def input(
        self,
        read: EncodedPrompt,
        sources: Sequence[Sequence[int]],
        start: int,
        config: DecodeConfig,
        numbers: Sequence[int],
        banned: Sequence[int],
    ) -> SpeculativeInput:
        """Return sources as a search reads them that goes on from proposals, each as often as samples are drawn from it.

        `start` is the token that outputs come after, and what the beginning of a source follows.
        """
        assert isinstance(config.method, Sampling)
        copies, draft, drafted = config.samples, self.speculation.draft, None
        if draft is not None:
            source_BM, lengths_B = pad([np.array(ids) for ids in sources])
            drafted = draft.start(source_BM.to(read.device), lengths_B.to(read.device)).repeat(copies)
        found = [ids if self.written is None else [self.written[i] for i in ids] for ids in sources]
        return SpeculativeInput(
            read.repeat(copies),
            [[start]] * (len(sources) * copies),
            self.speculation,
            config.method,
            sample_seeds(config, numbers),
            banned,
            [[start, *ids] for ids in found for _ in range(copies)],
            drafted,
        )


def source_speculation(
    config: DecodeConfig, model: Any, source: Tokenizer, target: Tokenizer, room: int, device: torch.device
) -> SourceSpeculation | None:
    """Return what the settings propose tokens by for an encoder-decoder that reads up to `room` tokens, or None.

    Settings that its decoding cannot have are refused.
    """
    check_cache(model, config.cache)
    if not config.speculates:
        return None
    must_keep_slots(model)
    if config.prompt_lookup:
        return SourceSpeculation(Speculation(config.prompt_lookup), None if source is target else spelled_alike(source, target))
    draft = open_draft(config, device)
    own: Any = getattr(draft, "model", None)
    settings = getattr(own, "config", None)
    if settings is None or not family_of(settings).has("seq2seq") or not hasattr(own, "start"):
        raise UserError(f"decode.draft={config.draft} is no encoder-decoder; give one of the same vocabulary.")
    must_keep_slots(own)
    must_share_vocabulary(config, (draft.tokenizer, getattr(draft, "target_tokenizer", draft.tokenizer)), (source, target))
    if settings.context is not None and settings.context < room:
        raise UserError(
            f"decode.draft={config.draft} has learned {settings.context:,} positions, and this model reads up to {room:,} "
            "tokens; give a draft that reads as many, or decode.prompt_lookup."
        )
    return SourceSpeculation(Speculation(config.draft_tokens, own, settings.context or 0))


def open_draft(config: DecodeConfig, device: torch.device) -> Any:
    """Open the run that `decode.draft` names, to be read plainly."""
    from regard.tasks.registry import open_run

    plain = ["draft=", "draft_tokens=4", "prompt_lookup=0", "cache=full", f"weights={config.weights}"]
    return open_run(config.draft, str(device), [f"decode.{setting}" for setting in plain])


def must_share_vocabulary(config: DecodeConfig, draft: Sequence[Tokenizer], own: Sequence[Tokenizer]) -> None:
    """Refuse a draft with other tokens."""
    if [tokenizer.fingerprint() for tokenizer in draft] != [tokenizer.fingerprint() for tokenizer in own]:
        raise UserError(
            f"decode.draft={config.draft} has another vocabulary than this model; give a draft that was trained with the same "
            "tokenizer, or decode.prompt_lookup."
        )


def spelled_alike(source: Tokenizer, target: Tokenizer) -> list[int]:
    """Return the target id of each source token: that of the same piece, or NO_TOKEN."""
    known = target.raw.get_vocab()
    return [known.get(str(source.raw.id_to_token(i)), NO_TOKEN) for i in range(len(source))]

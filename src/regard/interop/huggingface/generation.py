"""`generation_config.json` into our [decode] settings and back.

What a checkpoint says about generation decides what it writes: which token starts an output, which end it, what is forced or
never written, and how beams are ranked. Keys that have a counterpart are translated; keys that have none, at a value that would
change the output, are said in one sentence. Where a folder has no such file, `config.json` has the same keys, as transformers 4
wrote them.

Lengths: `max_length` counts the start token, ours do not. transformers divides the log-probability of a text by its length to the
power of `length_penalty` and ends a beam early: `decode.length_formula=power`, `decode.early_stopping=likely`, `rank_cut=true`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import UserError
from regard.core.files import read_json
from regard.text.tokenizer import Tokenizer

FILE = "generation_config.json"
STOPPING = {False: "likely", True: "full", "never": "never"}
SPECIAL = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id")
LISTS = {"suppress_tokens": "suppressed", "begin_suppress_tokens": "suppressed_first"}
NOTHING: dict[str, tuple[Any, ...]] = {  # keys without a counterpart, and the values at which they do nothing
    "num_beam_groups": (1, None),
    "diversity_penalty": (0, None),
    "encoder_no_repeat_ngram_size": (0, None),
    "encoder_repetition_penalty": (1, None),
    "typical_p": (1, None),
    "epsilon_cutoff": (0, None),
    "eta_cutoff": (0, None),
    "penalty_alpha": (0, None),
    "guidance_scale": (1, None),
    "renormalize_logits": (False, None),
    "exponential_decay_length_penalty": (None,),
    "sequence_bias": (None,),
    "constraints": (None,),
    "force_words_ids": (None,),
    "stop_strings": (None,),
    "dola_layers": (None,),
    "prompt_lookup_num_tokens": (None,),
    "watermarking_config": (None,),
    "num_return_sequences": (1, None),
    "top_h": (None,),
    "max_time": (None,),
    "forced_decoder_ids": (None,),
}


class Generation(NamedTuple):
    settings: dict[str, Any]  # of [decode]
    notes: tuple[str, ...]


def read_generation(folder: Path, raw: Mapping[str, Any], tokenizer: Tokenizer, *, reads_a_source: bool) -> Generation:
    """Return the [decode] settings of a folder; `raw` is its config.json."""
    path, where = folder / FILE, FILE
    if path.exists():
        given = read_json(path, within=folder)
        if not isinstance(given, dict):
            raise UserError(f"{path} holds a {type(given).__name__}; a JSON object is expected.")
        given = {key: raw[key] for key in SPECIAL if key in raw} | given
    else:
        given, where = dict(raw), "config.json"
    given = {key: value for key, value in given.items() if value is not None}
    reader = _Reader(given, tokenizer, where)
    return Generation(reader.settings(reads_a_source), tuple(reader.notes))


class _Reader:
    def __init__(self, given: Mapping[str, Any], tokenizer: Tokenizer, where: str) -> None:
        self.given, self.tokenizer, self.where = given, tokenizer, where
        self.notes = list[str]()

    def settings(self, reads_a_source: bool) -> dict[str, Any]:
        """Return [decode]: special tokens, then the search, then lengths."""
        ends = self.names("eos_token_id")
        found: dict[str, Any] = {"end": ends} if ends else {}
        found |= {ours: names for theirs, ours in LISTS.items() if (names := self.names(theirs))}
        if banned := self.bad_words():
            found["suppressed"] = list(dict.fromkeys((*found.get("suppressed", ()), *banned)))
        if not reads_a_source and (begins := self.begins()):
            found["start"] = begins
        if reads_a_source:
            start = self.names("decoder_start_token_id") or self.names("bos_token_id")
            found |= {"start": start[0]} if start else {}
            first = self.names("forced_bos_token_id")
            found |= {"first": first[0]} if first else {}
            found |= {"end_at_limit": True} if self.names("forced_eos_token_id") else {}
        found |= self.search(reads_a_source)
        if ngram := self.number("no_repeat_ngram_size", 0):
            found["no_repeat_ngram"] = int(ngram)
        found |= self.lengths(reads_a_source)
        for key, values in NOTHING.items():
            if self.given.get(key) is not None and self.given[key] not in values:
                self.notes.append(
                    f"{self.where} has {key}={self.given[key]!r}, for which decode has no counterpart; it is left out."
                )
        return found

    def begins(self) -> str:
        """Return the token that this tokenizer puts before every text, as LLaMA's does."""
        raw = self.tokenizer.raw
        if raw.post_processor is None:
            return ""
        framed, plain = (raw.encode("a", add_special_tokens=add).ids for add in (True, False))
        before = framed[: len(framed) - len(plain)] if framed[len(framed) - len(plain) :] == plain else []
        if len(before) > 1:
            raise UserError(f"{self.where}: the tokenizer puts {len(before)} tokens before every text; one is the most here.")
        return str(raw.id_to_token(before[0])) if before else ""

    def search(self, reads_a_source: bool) -> dict[str, Any]:
        beams, drawn = int(self.number("num_beams", 1)), self.given.get("do_sample")
        if drawn is True:
            if beams > 1:
                self.notes.append(f"{self.where} draws within {beams} beams, which decode does not; it draws without beams.")
            values = {"temperature": 1.0, "top_k": 50, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0}
            kinds = {"top_k": int}
            return {"search": "sample"} | {key: kinds.get(key, float)(self.number(key, usual)) for key, usual in values.items()}
        penalty = float(self.number("repetition_penalty", 1.0))
        if beams > 1:
            if penalty != 1:
                self.notes.append(
                    f"{self.where} has repetition_penalty={penalty:g} with beams, which decode does not; it is left out."
                )
            stopping = self.given.get("early_stopping", False)
            if stopping not in STOPPING:
                raise UserError(f"{self.where} has early_stopping={stopping!r}; true, false or 'never' is expected.")
            ranked = {"length_formula": "power", "early_stopping": STOPPING[stopping], "rank_cut": True}
            length_penalty = float(self.number("length_penalty", 1.0))
            if length_penalty < 0:
                self.notes.append(f"{self.where} has length_penalty={length_penalty:g}, which favours short outputs; 0 is taken.")
            return {"search": "beam", "beam": beams, "length_penalty": max(0.0, length_penalty), **ranked}
        if reads_a_source or drawn is False:
            return {"search": "greedy"} | ({"repetition_penalty": penalty} if penalty != 1 else {})
        return {}

    def lengths(self, reads_a_source: bool) -> dict[str, Any]:
        new, whole = self.number("max_new_tokens", 0), self.number("max_length", 0)
        found = {}
        if new or (whole and reads_a_source):
            found["maximum_length"] = int(new or max(1, whole - 1))
        least, least_new = self.number("min_length", 0), self.number("min_new_tokens", 0)
        if least_new or (least and reads_a_source):
            found["minimum_length"] = int(least_new or max(0, least - 1))
        for key, value in (("max_length", whole and not new), ("min_length", least and not least_new)):
            if value and not reads_a_source and self.where == FILE:
                self.notes.append(
                    f"{self.where} has {key}={self.given[key]}, prompt included, which decode does not count; it is left out."
                )
        return found

    def leave_out(self, what: str) -> None:
        self.notes.append(f"{self.where} has {what}, for which [decode] has no counterpart; it is left out.")

    def number(self, key: str, usual: float) -> float:
        value = self.given.get(key, usual)
        if type(value) not in (int, float):
            raise UserError(f"{self.where} has {key}={value!r}; a number is expected.")
        return float(value) if isinstance(value, float) else value

    def names(self, key: str) -> list[str]:
        """Return the tokens that a key names by one id or by several."""
        value = self.given.get(key, ())
        return [self.name(i, key) for i in (value if isinstance(value, list | tuple) else (value,))]

    def name(self, i: Any, key: str) -> str:
        token = self.tokenizer.raw.id_to_token(i) if type(i) is int and i >= 0 else None
        if token is None:
            raise UserError(f"{self.where} has {key}={i!r}, which is no token of its vocabulary; they do not belong together.")
        return str(token)

    def bad_words(self) -> tuple[str, ...]:
        words = self.given.get("bad_words_ids", [])
        if not isinstance(words, list) or not all(isinstance(word, list) and word for word in words):
            raise UserError(f"{self.where} has bad_words_ids={str(words)[:60]}; lists of ids are expected.")
        if longer := sum(len(word) > 1 for word in words):
            self.notes.append(
                f"{self.where} bans {longer} word{'s' if longer > 1 else ''} of several tokens in bad_words_ids; name them in "
                "decode.banned_words as text, since here they are left out."
            )
        return tuple(self.name(word[0], "bad_words_ids") for word in words if len(word) == 1)


def write_generation(decode: Any, tokenizer: Tokenizer, *, reads_a_source: bool) -> dict[str, Any]:
    """Return the keys of generation_config.json that say what a [decode] section says, as far as transformers can."""
    found: dict[str, Any] = {}
    one = tokenizer.raw.token_to_id
    if decode.search == "beam":
        stopping = {ours: theirs for theirs, ours in STOPPING.items()}.get(decode.early_stopping, "never")
        found |= {"num_beams": decode.beam, "early_stopping": stopping, "do_sample": False}
        found["length_penalty"] = decode.length_penalty  # of another formula where ours is GNMT's: near it for long texts
    elif decode.search == "sample":
        found |= {"do_sample": True, "temperature": decode.temperature, "top_k": decode.top_k, "top_p": decode.top_p}
    else:
        found |= {"do_sample": False, "num_beams": 1}
    if decode.repetition_penalty != 1:
        found["repetition_penalty"] = decode.repetition_penalty
    if decode.no_repeat_ngram:
        found["no_repeat_ngram_size"] = decode.no_repeat_ngram
    if decode.maximum_length:
        found |= {"max_length": decode.maximum_length + 1} if reads_a_source else {"max_new_tokens": decode.maximum_length}
    if decode.end:
        ends = [one(name) for name in decode.end]
        found["eos_token_id"] = ends[0] if len(ends) == 1 else ends
    found |= {key: [one(name) for name in getattr(decode, ours)] for key, ours in LISTS.items() if getattr(decode, ours)}
    if reads_a_source:
        found |= {"decoder_start_token_id": one(decode.start)} if decode.start else {}
        found |= {"forced_bos_token_id": one(decode.first)} if decode.first else {}
        found |= {"forced_eos_token_id": one(decode.end[0])} if decode.end_at_limit and decode.end else {}
    return found

"""A tokenizer for others: a text given to it comes out with the marks around it that the run's model was trained with."""

from __future__ import annotations

from typing import Any

import tokenizers
from tokenizers import processors

from regard.families import marks_of
from regard.families.gpt import GPTConfig
from regard.families.transformer import TransformerConfig
from regard.interop.huggingface.mapping import Config
from regard.text.tokenizer import Tokenizer

THEIR_ROLES = {"sos": "bos", "eos": "eos", "pad": "pad", "unk": "unk", "sep": "sep", "cls": "cls", "mask": "mask"}


def _ended(tokenizer: Tokenizer) -> str:
    """Return tokenizer.json with an end behind every text, where it does not say itself what is around one."""
    raw = tokenizers.Tokenizer.from_str(tokenizer.raw.to_str())
    if raw.post_processor is None and (eos := tokenizer.roles.eos) is not None:
        end = str(raw.id_to_token(eos))
        raw.post_processor = processors.TemplateProcessing(single=["$A:0", f"{end}:0"], special_tokens=[(end, eos)])
    return str(raw.to_str(pretty=True))


def public_tokenizer(tokenizer: Tokenizer, config: Config) -> tuple[str, dict[str, str]]:
    """Return tokenizer.json, and the special tokens by the roles that transformers knows."""
    name = tokenizer.raw.id_to_token
    roles = {THEIR_ROLES[role]: str(name(i)) for role, i in tokenizer.roles._asdict().items() if i is not None}
    if isinstance(config, GPTConfig):
        return tokenizer.raw.to_str(pretty=True), roles  # what it writes goes on from a text as it is
    if isinstance(config, TransformerConfig):
        return _ended(tokenizer), roles
    raw, start, end = marked(tokenizer, config)
    return raw, {**roles, "cls": start, "sep": end}


def marked(tokenizer: Tokenizer, config: Any) -> tuple[str, str, str]:
    """Return tokenizer.json with the marks of a model that reads around one text or two, and the first and the last mark."""
    name, around = tokenizer.raw.id_to_token, marks_of(config, tokenizer.roles)
    start, between, end = (str(name(i)) for i in (around.start, around.between, around.end))
    raw = tokenizers.Tokenizer.from_str(tokenizer.raw.to_str())
    second = int(getattr(config, "segments", 0) > 1)
    raw.post_processor = processors.TemplateProcessing(
        single=[f"{start}:0", "$A:0", f"{end}:0"],
        pair=[f"{start}:0", "$A:0", *[f"{between}:0"] * (1 + around.twice), f"$B:{second}", f"{end}:{second}"],
        special_tokens=list({start: around.start, between: around.between, end: around.end}.items()),
    )
    return raw.to_str(pretty=True), start, end

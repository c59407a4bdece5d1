"""A tokenizer for others: a text given to it comes out with the marks around it that the run's model was trained with."""

from __future__ import annotations

import tokenizers
from tokenizers import processors

from regard.families import marks_of
from regard.families.bert import BERTConfig
from regard.families.gpt import GPTConfig
from regard.text.tokenizer import Tokenizer

THEIR_ROLES = {"sos": "bos", "eos": "eos", "pad": "pad", "unk": "unk", "sep": "sep", "cls": "cls", "mask": "mask"}


def public_tokenizer(tokenizer: Tokenizer, config: GPTConfig | BERTConfig) -> tuple[str, dict[str, str]]:
    """tokenizer.json, and the special tokens by the roles that transformers has for them."""
    name = tokenizer.raw.id_to_token
    roles = {THEIR_ROLES[role]: str(name(i)) for role, i in tokenizer.roles._asdict().items() if i is not None}
    if isinstance(config, GPTConfig):
        return tokenizer.raw.to_str(pretty=True), roles  # what it writes goes on from a text as it is
    around = marks_of(config, tokenizer.roles)
    start, between, end = (str(name(i)) for i in (around.start, around.between, around.end))
    raw = tokenizers.Tokenizer.from_str(tokenizer.raw.to_str())
    second = int(config.segments > 1)
    raw.post_processor = processors.TemplateProcessing(
        single=[f"{start}:0", "$A:0", f"{end}:0"],
        pair=[f"{start}:0", "$A:0", *[f"{between}:0"] * (1 + around.twice), f"$B:{second}", f"{end}:{second}"],
        special_tokens=list({start: around.start, between: around.between, end: around.end}.items()),
    )
    return raw.to_str(pretty=True), {**roles, "cls": start, "sep": end}

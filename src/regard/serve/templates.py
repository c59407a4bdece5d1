"""Conversations as one text: by the chat template that came with a model's files, or as a plain transcript.

A template is a Jinja2 program in `chat_template.jinja` or `tokenizer_config.json` of a folder. It runs in Jinja2's sandbox, and
only templates from the folder of a model run: a request has none. The tokens that a template writes, such as <|im_start|>, are
special only where the template wrote them: a message that has one of them in its text is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from regard.core.errors import UserError
from regard.core.files import read_json, read_text
from regard.tasks.language_model.transcript import Transcript
from regard.text.tokenizer import Tokenizer

CONFIG, FILE = "tokenizer_config.json", "chat_template.jinja"
LARGEST = 2**20  # bytes of a template, and of the settings that may hold one
NAMES = {"system": "System", "developer": "System", "user": "User", "assistant": "Assistant"}
STOP = "\nUser:"

Message = dict[str, str]  # role and content


@dataclass(frozen=True)
class ChatTemplate:
    template: Any  # a compiled template
    tokens: dict[str, str]  # such as bos_token
    special: re.Pattern[str] | None  # special tokens as they are spelled
    place: str

    @classmethod
    def read(cls, folder: Path, tokenizer: Tokenizer | None) -> ChatTemplate | None:
        """Return the template of a folder; None if it has none."""
        if tokenizer is None or not folder.is_dir():
            return None
        config = read_json(folder / CONFIG, LARGEST, within=folder) if (folder / CONFIG).is_file() else {}
        config = config if isinstance(config, dict) else {}
        text, place = config.get("chat_template"), str(folder / CONFIG)
        if isinstance(text, list):  # several by name
            named = {one.get("name"): one.get("template") for one in text if isinstance(one, dict)}
            text = named.get("default")
        if (folder / FILE).is_file():
            text, place = read_text(folder / FILE, LARGEST, within=folder), str(folder / FILE)
        if not isinstance(text, str) or not text:
            return None
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _refuse
        environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
        try:
            template = environment.from_string(text)
        except TemplateError as error:
            raise UserError(f"{place} has a chat template that cannot be read ({error}); correct it, or take it out.") from None
        return cls(template, _tokens(config), _special(tokenizer), place)

    def render(self, messages: Sequence[Message]) -> Transcript:
        """Return the conversation up to where the model goes on."""
        for message in messages:
            if self.special is not None and (found := self.special.search(message["content"])):
                raise UserError(f"a message has {found[0]!r} in its text, which is a special token of this model; leave it out.")
        try:
            text = self.template.render(messages=list(messages), add_generation_prompt=True, tools=None, **self.tokens)
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError) as error:
            raise UserError(f"the chat template of this model does not take these messages ({error}).") from None
        return Transcript(text)


def transcript(messages: Sequence[Message]) -> str:
    """Return a conversation for a model without a template: a line for each turn, and the beginning of the next."""
    return "\n".join([*(f"{NAMES[message['role']]}: {message['content']}" for message in messages), f"{NAMES['assistant']}:"])


def turns(messages: Sequence[Message]) -> list[str]:
    """Return what was said, for a model of dialogues, which knows turns and no roles."""
    if any(NAMES[message["role"]] == NAMES["system"] for message in messages):
        raise UserError("this model of dialogues knows turns only; leave messages with the role system or developer out.")
    return [message["content"] for message in messages]


def _refuse(sentence: str) -> NoReturn:
    raise TemplateError(sentence)


def _tokens(config: dict[str, Any]) -> dict[str, str]:
    """Return the special tokens that settings name, each a text or an object with its content."""
    found = {name: config.get(name) for name in ("bos_token", "eos_token", "unk_token", "pad_token")}
    plain = {name: token.get("content") if isinstance(token, dict) else token for name, token in found.items()}
    return {name: token for name, token in plain.items() if isinstance(token, str)}


def _special(tokenizer: Tokenizer) -> re.Pattern[str] | None:
    names = [str(tokenizer.raw.id_to_token(i)) for i in sorted(tokenizer.specials)]
    return re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True)))) if names else None

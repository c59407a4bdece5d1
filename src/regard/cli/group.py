"""What all verbs share before they begin: no empty names, and an end of output that is no mistake."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from regard.errors import UserError

MAY_BE_EMPTY = ("TEXT", "TEXT|KEY=VALUE", "KEY=VALUE", "NAME")  # by their metavar: texts, or refused by a sentence of their own


class ReaderLeft(Exception):
    """Who read our output has gone, as `head` does. Typer would end with 1 for it, so that it must not see the error itself."""


class Verbs(TyperGroup):
    def make_context(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().make_context(*arguments, **options)
        except BrokenPipeError:  # of a help page
            raise ReaderLeft from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderLeft from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the verb, and refuse what is given to it as an empty text: as a path that would be this folder."""
        name, verb, rest = super().resolve_command(ctx, args)
        if verb is not None and any(not word or word.endswith("=") for word in rest):
            alone = verb.context_class(verb, info_name=name, parent=ctx)
            given, _, _ = verb.make_parser(alone).parse_args(list(rest))
            for parameter in verb.params:
                what = parameter.metavar or str(parameter.name).upper()
                if given.get(str(parameter.name)) == "" and what not in MAY_BE_EMPTY:
                    called = parameter.opts[0] if parameter.param_type_name == "option" else what
                    raise UserError(f"{called} is an empty text, which names nothing. See 'regard {name} --help'.")
        return name, verb, rest

"""Visibility as people write it in a recipe: `visibility = "window(8)"`, `"causal & window(16)"`, `"bigbird(64)"`.

    full · causal · window(radius)
    block(size, radius) · strided(stride, block) · summary(period, count)
    global(count) · last(block, count) · random(count, seed, block)

    longformer(window, global)              Beltagy et al. 2020
    bigbird(block, window, global, random)  Zaheer et al. 2020
    sparse-transformer(stride, count)       Child et al. 2019, as for text; they call it fixed
    sparse-transformer-strided(stride)      as for images; with a second number, in blocks of that many tokens
    image-local-1d(size, margin)            Parmar et al. 2018
    image-local-2d(width, rows, columns, above, beside)

Numbers that papers have for most of their models may be left out. The text is parsed, never executed: names, whole numbers (by
name too, `bigbird(random=2)`), & and |, brackets, and nothing else.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from inspect import Parameter, signature

from regard.core.errors import UserError, nearest
from regard.model.visibility import Visibility, causal, full, window
from regard.model.visibility.bigbird import BigBirdFixed, Random, bigbird
from regard.model.visibility.patterns import Block, Global, Last, Local1D, Local2D, Strided, Summary


def longformer(window_: int = 512, global_: int = 1) -> Visibility:
    """`window_` counts both sides; the first tokens are global."""
    return window(window_ // 2) | Global(global_)


def strided_transformer(stride: int = 128, block: int = 1) -> Visibility:
    if stride % block:
        raise UserError(f"sparse-transformer-strided: a stride of {stride} tokens is no whole number of blocks of {block}.")
    near = window(stride) if block == 1 else Block(block, stride // block)
    return near | Strided(stride // block, block)


def sparse_transformer(stride: int = 128, count: int = 8) -> Visibility:
    return Block(stride) | summary(stride, count)


def summary(period: int, count: int) -> Visibility:
    if count > period:
        raise UserError(f"summary: of every {period} tokens the last {count} cannot be seen; give at most {period}.")
    return Summary(period, count)


def random(count: int, seed: int = 0, block: int = 64, near: int = 0, first: int = 0, last: int = 0) -> Visibility:
    return Random(count, seed, block, near, first, last)


def bigbird_fixed(block: int = 64, random: int = 3) -> Visibility:
    return BigBirdFixed(block, random)


def last(block: int, count: int = 1) -> Visibility:
    return Last(block, count)


PATTERNS = {"full": full, "causal": causal}
PATTERNS_WITH_NUMBERS: dict[str, Callable[..., Visibility]] = {
    "window": window,
    "block": Block,
    "strided": Strided,
    "summary": summary,
    "global_": Global,
    "last": last,
    "random": random,
    "longformer": longformer,
    "bigbird": bigbird,
    "bigbird_fixed": bigbird_fixed,
    "sparse_transformer": sparse_transformer,
    "sparse_transformer_strided": strided_transformer,
    "image_local_1d": Local1D,
    "image_local_2d": Local2D,
}
MAY_BE_ZERO = ("radius", "seed", "near", "first", "last", "margin", "above", "beside", "window_")
MAY_BE_LEFT_OUT = {("bigbird", "random"), ("bigbird", "global_"), ("bigbird_fixed", "random")}


def parse_visibility(text: str) -> Visibility:
    """A hyphen inside a name is as good as an underscore, and `global` as `global_`."""
    plain = re.sub(r"\bglobal\b", "global_", re.sub(r"(?<=\w)-(?=\w)", "_", text.strip()))
    try:
        tree = ast.parse(plain, mode="eval").body
    except (SyntaxError, ValueError):
        raise UserError(f"visibility {text!r} cannot be read: write names joined by & and |, such as 'window(8)'.") from None
    return _build(tree, text)


def _build(node: ast.expr, text: str) -> Visibility:
    match node:
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return _build(left, text) & _build(right, text)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _build(left, text) | _build(right, text)
        case ast.Name(id=name) if name in PATTERNS:
            return PATTERNS[name]
        case ast.Name(id=name) if name in PATTERNS_WITH_NUMBERS:
            return _made(name, [], {}, text)
        case ast.Call(func=ast.Name(id=name), args=given, keywords=named) if name in PATTERNS_WITH_NUMBERS:
            numbers = [_number(argument, text) for argument in given]
            return _made(name, numbers, {keyword.arg or "": _number(keyword.value, text) for keyword in named}, text)
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)) if name not in PATTERNS_WITH_NUMBERS:
            known = [*PATTERNS, *PATTERNS_WITH_NUMBERS]
            raise UserError(f"visibility {text!r}: there is no pattern {name!r}" + nearest(name, known))
    raise _unreadable(text)


def _unreadable(text: str) -> UserError:
    return UserError(f"visibility {text!r} cannot be read: write names joined by & and |, such as 'causal & window(8)'.")


def _number(node: ast.expr, text: str) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    raise _unreadable(text)


def _made(name: str, numbers: list[int], named: dict[str, int], text: str) -> Visibility:
    """A pattern of these numbers, each of which must be one that it has."""
    own = {key: parameter for key, parameter in signature(PATTERNS_WITH_NUMBERS[name]).parameters.items() if key != "end"}
    said = f"{name}({', '.join(key.strip('_') for key in own)})"
    named = {key if key in own else f"{key}_": number for key, number in named.items()}
    for key in named:
        if key not in own:
            raise UserError(f"visibility {text!r}: {said} has no {key.strip('_')!r}{nearest(key.strip('_'), own)}")
    if len(numbers) > len(own) or {*list(own)[: len(numbers)]} & {*named}:
        raise UserError(f"visibility {text!r}: {said} takes each number once, and no more than these.")
    given = dict(zip(own, numbers)) | named
    if missing := [key for key, parameter in own.items() if parameter.default is Parameter.empty and key not in given]:
        needs = "a number" if len(own) == 1 else f"{len(missing)} more number{'s' if len(missing) > 1 else ''}"
        raise UserError(
            f"visibility {text!r}: {name} needs {needs}, such as '{name}({', '.join('8' for _ in missing)})'; it is {said}."
        )
    for key, number in given.items():
        if number == 0 and key not in MAY_BE_ZERO and (name, key) not in MAY_BE_LEFT_OUT and name != "window":
            raise UserError(f"visibility {text!r}: {key.strip('_')} must be at least 1 in {said}.")
    return PATTERNS_WITH_NUMBERS[name](**given)

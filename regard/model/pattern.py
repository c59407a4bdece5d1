"""Visibility as people write it in a recipe: `visibility = "window(8)"`, `"causal & window(16)"`.

The text is parsed, never executed: names, whole numbers, & and |, brackets, and nothing else.
"""

from __future__ import annotations

import ast

from regard.errors import UserError, nearest
from regard.model.visibility import Visibility, causal, full, window

PATTERNS = {"full": full, "causal": causal}
PATTERNS_WITH_NUMBERS = {"window": window}


def parse_visibility(text: str) -> Visibility:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
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
            raise UserError(f"visibility {text!r}: {name} needs a number, such as '{name}(8)'.")
        case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=int(number))], keywords=[]) if (
            name in PATTERNS_WITH_NUMBERS and not isinstance(number, bool)
        ):
            return PATTERNS_WITH_NUMBERS[name](number)
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)) if name not in PATTERNS_WITH_NUMBERS:
            known = [*PATTERNS, *PATTERNS_WITH_NUMBERS]
            raise UserError(f"visibility {text!r}: there is no pattern {name!r}" + nearest(name, known))
    raise UserError(f"visibility {text!r} cannot be read: write names joined by & and |, such as 'causal & window(8)'.")

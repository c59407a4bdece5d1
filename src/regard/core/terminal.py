"""Output to a terminal: control characters are shown as escapes.

A label, a word, the name of a tensor or a generated text may come from an untrusted file, and ESC ] 0 ; in it would set the
title of the window. Labels, words and names are escaped wherever they go. Generated text
that is piped must stay as it is, so it is escaped for a terminal only (`cli.shared.show`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

Emit = Callable[[str], object]  # takes pieces of output as they are ready

OBEYED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 and C1 controls, DEL, line and paragraph separators, marks that turn the direction of writing, halves of characters."""

SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable(text: str, keep: str = "") -> str:
    """Escape every control character but those of `keep` as JSON does: \\u001b, \\n."""
    return OBEYED.sub(lambda found: found[0] if found[0] in keep else SHORT.get(found[0], f"\\u{ord(found[0]):04x}"), text)


def quoted(text: str, most: int = 80) -> str:
    """Return a text for use inside a sentence: in one line, and shortened in the middle if it is longer than `most`."""
    if len(text) > most:
        half = (most - 3) // 2
        text = f"{text[:half]}...{text[-half:]}"
    return printable(text)


def print_stderr(line: str) -> None:
    """Print a line for people on stderr, where programs that read our output do not see it."""
    print(printable(line, keep="\n\t"), file=sys.stderr, flush=True)

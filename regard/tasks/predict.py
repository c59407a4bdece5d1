"""`regard predict`: texts, a file or standard input in; lines or JSON out, as they are ready."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from regard.errors import UserError
from regard.tasks.translator import Translation, Translator


@contextmanager
def predict_lines(
    run: Path,
    texts: Sequence[str] | None,
    input: Path | None,
    output: Path | None,
    settings: Sequence[str],
    device: str | None,
    as_json: bool,
) -> Iterator[Iterator[str]]:
    """Lines for the terminal; with `output` they go to that file instead, and none is left to print."""
    with ExitStack() as opened:
        sources = _sources(texts, input, opened)
        file = _create(output, opened) if output is not None else None
        translator = Translator.open(run, device, settings)
        lines = _lines(translator, sources, as_json, chunk=1 if input is None and not texts and sys.stdin.isatty() else 64)
        if file is None:
            yield lines
        else:
            file.writelines(f"{line}\n" for line in lines)
            yield iter(())


def _sources(texts: Sequence[str] | None, input: Path | None, opened: ExitStack) -> Iterable[str]:
    if texts:
        return texts
    if input is None:
        return _checked(sys.stdin.buffer, "standard input")
    try:
        return _checked(opened.enter_context(input.open("rb")), str(input))
    except FileNotFoundError:
        raise UserError(f"--input {input} does not exist.") from None
    except OSError as error:
        raise UserError(f"--input {input} cannot be read: {error.strerror}.") from None


def _checked(file: IO[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{name}, line {number}: byte {error.start + 1} is not UTF-8; convert the text to UTF-8 first."
            ) from None


def _create(output: Path, opened: ExitStack) -> IO[str]:
    try:
        return opened.enter_context(output.open("w", encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--output {output} cannot be written: {error.strerror}.") from None


def _lines(translator: Translator, sources: Iterable[str], as_json: bool, chunk: int) -> Iterator[str]:
    kept: list[str] = []

    def remembered() -> Iterator[str]:
        for source in sources:
            kept.append(source)
            yield source

    for found in translator.stream(remembered(), chunk):
        source = kept.pop(0)
        if as_json:
            yield json.dumps({"source": source, "outputs": [_as_dict(t) for t in found]}, ensure_ascii=False)
        elif translator.decode.n_best == 1:
            yield found[0].text
        else:
            yield from (f"{t.score:.4f}\t{t.text}" for t in found)


def _as_dict(translation: Translation) -> dict[str, object]:
    return {name: getattr(translation, name) for name in ("text", "score", "logprob", "finished")}

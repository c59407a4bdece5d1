"""`regard predict`: texts, a file or standard input in; lines or JSON out, as they are ready."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path

from regard.errors import UserError
from regard.tasks.outputs import growing
from regard.tasks.translator import Translation, Translator

CHUNK = 64  # lines translated together: enough to sort by length, few enough to watch
BLOCK = 1 << 16  # bytes

Lines = Iterable[Sequence[str]]  # a few at a time


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
        file = opened.enter_context(growing(output, "--output")) if output is not None else None
        lines = _lines(Translator.open(run, device, settings), sources, as_json)
        if file is None:
            yield lines
        else:
            file.writelines(f"{line}\n" for line in lines)
            yield iter(())


def _sources(texts: Sequence[str] | None, input: Path | None, opened: ExitStack) -> Lines:
    if texts:
        return [texts]
    if input is None:
        return _arriving(sys.stdin.buffer, "standard input")  # type: ignore[arg-type]
    try:
        return _arriving(opened.enter_context(input.open("rb")), f"--input {input}")
    except FileNotFoundError:
        raise UserError(f"--input {input} does not exist; give a file with one text on each line.") from None
    except IsADirectoryError:
        raise UserError(f"--input {input} is a folder; give a file with one text on each line.") from None
    except OSError as error:
        raise UserError(f"--input {input} cannot be read: {error.strerror}. Check who may read it.") from None


def _arriving(file: BufferedReader, name: str) -> Lines:
    """Whole lines as soon as they are there: whoever types or pipes need not close the stream to see results."""
    rest, number = b"", 0
    while block := file.read1(BLOCK):
        *whole, rest = (rest + block).split(b"\n")
        for start in range(0, len(whole), CHUNK):
            chunk = whole[start : start + CHUNK]
            yield [_decoded(line, name, number + n) for n, line in enumerate(chunk, 1)]
            number += len(chunk)
    if rest:
        yield [_decoded(rest, name, number + 1)]


def _decoded(line: bytes, name: str, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{name}, line {number:,}: byte {error.start + 1} (0x{line[error.start]:02X}) is not UTF-8; convert the text first, "
            "for instance with iconv -f LATIN1 -t UTF-8."
        ) from None


def _lines(translator: Translator, sources: Lines, as_json: bool) -> Iterator[str]:
    for texts in sources:
        for source, found in zip(texts, translator.translate(texts)):
            if as_json:
                yield json.dumps({"source": source, "outputs": [_as_dict(t) for t in found]}, ensure_ascii=False)
            elif translator.decode.n_best == 1:
                yield found[0].text
            else:
                yield from (f"{t.score:.4f}\t{t.text}" for t in found)


def _as_dict(translation: Translation) -> dict[str, object]:
    return {name: getattr(translation, name) for name in ("text", "score", "logprob", "finished")}

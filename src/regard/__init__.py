"""Regard: the whole Transformer family on one attention core.

import regard
translator = regard.load("runs/translate")
translator("the animal did not cross the street because it was too tired")
with regard.probe(translator.model) as seen:
    translator("...")
seen["decoder.1.cross"].weights(heads=[0])
regard.show("heads", "runs/translate", "the animal did not cross the street")
regard.word_uses("runs/bert", "bank", ["He sat on the river bank.", "She put cash in the bank."]).mean_L
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from regard.lens.analyses.word_senses import WordUses
    from regard.lens.result import LensResult
    from regard.model.probe import probe
    from regard.tasks.translation.predict import Translator

__version__ = "0.1.0"
__all__ = ["Translator", "UserError", "__version__", "load", "probe", "show", "word_uses"]


def load(run: str, device: str | None = None) -> Any:
    """Open a run folder, a Hugging Face folder, or hf:NAME on its hub, ready to be called."""
    from regard.tasks.registry import open_run

    return open_run(run, device)


def show(
    view: str,
    run: str,
    text: str | None = None,
    *,
    target: str | None = None,
    hypothesis: int | None = None,
    data: Path | None = None,
    part: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
    values: bool = False,
    specials: str | None = None,
    device: str | None = None,
) -> LensResult:
    """What `regard lens RUN TEXT --show VIEW` prints, as a result: its numbers, its lines, and a picture in a notebook."""
    from regard.commands.views import ViewRequest, computed

    asked = ViewRequest(
        run=run, device=device, text=text, target=target, hypothesis=hypothesis, data=data, layer=layer, head=head, part=part,
        words=words, values=values, specials=specials,
    )  # fmt: skip
    return computed(view, asked)


def word_uses(run: str, word: str, sentences: Sequence[str | tuple[str, str]], device: str | None = None) -> WordUses:
    """How far apart the uses of a word in these sentences are, layer by layer; each may come with the word's sense there."""
    from regard.commands.word_uses import word_uses

    return word_uses(run, word, sentences, device)


def __getattr__(name: str) -> Any:
    """torch takes seconds to import, so `regard --help` does without it."""
    if name == "probe":
        from regard.model.probe import probe

        return probe
    if name == "Translator":
        from regard.tasks.translation.predict import Translator

        return Translator
    raise AttributeError(f"module 'regard' has no attribute {name!r}")

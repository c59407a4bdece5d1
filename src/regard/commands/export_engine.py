"""`regard export RUN DIR --to ctranslate2|onnx`: files for another engine, run beside the model before they are kept.

The folder is written under a hidden name; there both sides are run on the same inputs, and only what agrees is moved to its
place. What does not agree is refused in one sentence, and nothing is left behind.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.core.errors import UserError, nearest
from regard.core.files import draft_folder, is_free
from regard.families import FAMILIES, family_of, marks_of
from regard.families.base import Heads, Sizes
from regard.interop.ctranslate2.binary import PRECISIONS
from regard.interop.ctranslate2.check import compare
from regard.interop.ctranslate2.models import kind_of, write_folder
from regard.interop.exported import INPUTS, ExportedModel, Measure, must_agree, need
from regard.interop.huggingface.tokenizer import public_tokenizer
from regard.runs.folder import Run, Say
from regard.runs.load import assign, empty_parameters
from regard.runs.pretrained import PAIR_VOCABULARIES, InitCheckpoint, start_of
from regard.tasks.output_marks import OutputMarks

ENGINES = ("ctranslate2", "onnx")
CLASSES = {"seq2seq": "Translator", "causal_lm": "Generator", "token_vectors": "Encoder"}


def export_to_ctranslate2(folder: Path, to: Path, quantization: str, say: Say) -> None:
    """Write a run as a folder that CTranslate2 opens."""
    if quantization not in PRECISIONS:
        raise UserError(f"--quantization {quantization} is not a choice{nearest(quantization, [*PRECISIONS])}")
    must_be_free(to)
    start = start_of(str(folder)).whole()
    model = body_of(start)
    kind = kind_of(model)
    subject = described(Run.open(folder), start, model)
    engine = need("ctranslate2", "--to ctranslate2")
    own = model.state_dict().keys()
    heads = {name: tensor.float() for name, tensor in start.weights.items() if name not in own}
    with draft_folder(to, last="model.bin") as draft:
        write_folder(draft, subject, heads, quantization)
        measures = compare(engine, draft, subject, quantization)
        must_agree(measures, "CTranslate2")
    report(measures, say)
    say(f"exported: {to}    in Python: ctranslate2.{CLASSES[kind.needs]}({str(to)!r})")


def must_be_free(to: Path) -> None:
    if not is_free(to):
        raise UserError(f"{to} exists already and is not an empty folder; choose another name, or remove it first.")


def report(measures: list[Measure], say: Say) -> None:
    for measure in measures:
        say(f"{measure} on {INPUTS} inputs, {measure.allowed} is allowed")


def body_of(start: InitCheckpoint) -> Any:
    """Build the body of a checkpoint with its weights in float32; heads that a body does not have are left out."""
    settings, weights = start.settings["model"], start.weights
    config = FAMILIES[settings["family"]].config(**settings)
    heads = Heads(words=_has(weights, "head"), pooler=_has(weights, "pooler"))
    with empty_parameters():
        sizes = Sizes(vocabulary=start.vocabulary, target_vocabulary=start.target_vocabulary, heads=heads)
        model: Any = family_of(config).build(config, sizes, 0)
    own = model.state_dict()
    assign(model, {name: tensor.float() for name, tensor in weights.items() if name in own}, strict=False)
    if missing := next((name for name, parameter in model.named_parameters() if parameter.is_meta), None):
        raise UserError(f"{start.name} has no weight {missing}, which a {config.family} needs; export the run it began with.")
    return model.float().eval()


def _has(weights: dict[str, Tensor], part: str) -> bool:
    return any(name.startswith(f"{part}.") for name in weights)


def described(run: Run, start: InitCheckpoint, model: Any) -> ExportedModel:
    """Return the model with its vocabularies and the tokens that begin and end what it reads or writes."""
    config, source = model.config, start.tokenizer
    subject = ExportedModel(str(run.folder), model, source, start.target_tokenizer, labels=start.labels)
    if source is None:
        return subject
    if family_of(config).has_any("seq2seq", "causal_lm"):
        marks = OutputMarks.of(run.recipe.decode, start.target_tokenizer or source)
        subject = replace(subject, start=marks.start, end=marks.ends[0] if marks.ends else None)
    else:
        around = marks_of(config, source.roles)
        subject = replace(subject, start=around.start, end=around.end)
    tokenizer_json, _ = public_tokenizer(source, config)
    if start.target_tokenizer is None:
        files: dict[str, str | bytes] = {"tokenizer.json": tokenizer_json}
    else:
        files = dict(zip(PAIR_VOCABULARIES, (tokenizer_json, start.target_tokenizer.raw.to_str(pretty=True))))
    return replace(subject, pad=source.roles.pad or 0, files=files)

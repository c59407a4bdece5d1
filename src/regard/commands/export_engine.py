"""`regard export RUN DIR --to ctranslate2|onnx`: files for another engine, run beside the model before they are kept.

The folder is written under a hidden name; there both sides are run on the same inputs, and only what agrees is moved to its
place. What does not agree is refused in one sentence, and nothing is left behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.core.errors import UserError, nearest
from regard.core.files import draft_folder, is_free
from regard.core.terminal import quoted
from regard.data.labels import Scale
from regard.families import FAMILIES, family_of, marks_of
from regard.families.base import Heads, Sizes
from regard.families.classifier import classifier
from regard.interop.ctranslate2.binary import PRECISIONS
from regard.interop.ctranslate2.check import compare
from regard.interop.ctranslate2.models import kind_of, kind_of_family, pooled_by, write_folder
from regard.interop.exported import INPUTS, ExportedModel, Measure, must_agree, not_installed
from regard.interop.huggingface.tokenizer import marked, public_tokenizer
from regard.interop.onnx.check import compare as compare_graphs
from regard.interop.onnx.graphs import kind_of as onnx_kind_of
from regard.interop.onnx.graphs import kind_of_family as onnx_kind_of_family
from regard.interop.onnx.write import write_folder as write_graphs
from regard.runs.folder import Run, Say
from regard.runs.load import assign, empty_parameters
from regard.runs.pretrained import PAIR_VOCABULARIES, READS, VOCABULARY, InitCheckpoint, start_of
from regard.runs.task import TASKS
from regard.tasks.classification.predict import LABELS
from regard.tasks.output_marks import OutputMarks

TOKENS = 200  # that run.py writes where the recipe has no limit
UNLIMITED = 1_000_000  # tokens of a text, for positions without an end
ENGINES = ("ctranslate2", "onnx")
CLASSES = {"seq2seq": "Translator", "causal_lm": "Generator", "token_vectors": "Encoder"}


def export_to_ctranslate2(folder: Path, to: Path, quantization: str, say: Say) -> None:
    """Write a run as a folder that CTranslate2 opens."""
    if quantization not in PRECISIONS:
        raise UserError(f"--quantization {quantization} is not a choice{nearest(quantization, [*PRECISIONS])}")
    try:
        import ctranslate2
    except ImportError as error:
        raise not_installed("ctranslate2", error) from None
    must_be_free(to)
    run, start = Run.open(folder), start_of(str(folder)).whole()
    kind_of_family(config_of(start))
    model = body_of(start)
    kind = kind_of(model)
    subject = described(run, start, model)
    written = {*READS, "head" if kind.needs != "token_vectors" else "", "pooler" if pooled_by(model) else ""}
    heads = {name: tensor.float() for name, tensor in start.weights.items() if name.partition(".")[0] not in written}
    with draft_folder(to, last="model.bin") as draft:
        write_folder(draft, subject, heads, quantization)
        with engine_errors("CTranslate2"):
            measures = compare(ctranslate2, draft, subject, quantization)
        must_agree(measures, "CTranslate2")
    report(measures, say)
    say(f"exported: {to}    in Python: ctranslate2.{CLASSES[kind.needs]}({str(to)!r})")


def export_to_onnx(folder: Path, to: Path, say: Say) -> None:
    """Write a run as graphs that ONNX Runtime runs, with a run.py."""
    try:
        import onnx  # noqa: F401  # which the exporter imports, as it does onnxscript
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise not_installed("onnx", error) from None
    must_be_free(to)
    run, start = Run.open(folder), start_of(str(folder))
    classes = "classes.project.weight" in start.weights and start.tokenizer is not None
    if not classes:
        onnx_kind_of_family(config_of(start))
    model = classifier_of(run, start) if classes else body_of(start)
    kind = onnx_kind_of(model)
    subject = described(run, start, model)
    with draft_folder(to, last="run.py") as draft:
        write_graphs(draft, subject, onnx_settings(run, subject))
        with engine_errors("ONNX Runtime"):
            measures = compare_graphs(onnxruntime, draft, subject)
        must_agree(measures, "ONNX Runtime")
    report(measures, say)
    typed = {"images": "images.npy logits.npy"}.get(kind, TASKS[run.recipe.task.name].prompt)
    say(f"exported: {to}    try: python {to / 'run.py'} {typed}")


def onnx_settings(run: Run, subject: ExportedModel) -> dict[str, Any]:
    """Return what run.py reads from settings.json."""
    if subject.tokenizer is None or subject.written is None:
        return {"labels": subject.labels}
    names = (VOCABULARY,) if subject.target_tokenizer is None else PAIR_VOCABULARIES
    settings: dict[str, Any] = {"tokenizer": names[0], "target_tokenizer": names[-1], "labels": subject.labels}
    if onnx_kind_of(subject.model) in ("translator", "writer"):
        decode, written = run.recipe.decode, subject.written
        marks, rows = OutputMarks.of(decode, written), subject.model.head.project.out_features
        settings |= {
            "start": marks.start,
            "before": [marks.start] if decode.start else [],
            "ends": marks.ends,
            "banned": [*marks.banned, *range(len(written), rows)],
            "maximum_length": decode.maximum_length or TOKENS,
            "context": subject.config.context or UNLIMITED,
        }
    return settings


def classifier_of(run: Run, start: InitCheckpoint) -> Any:
    """Build the classifier of a run with its weights in float32."""
    weights = in_numbers(start.weights, run) if run.recipe.objective.name == "regression" else start.weights
    config = config_of(start)
    with empty_parameters():
        model: Any = classifier(config, start.vocabulary, len(weights["classes.project.weight"]))
    return _filled(model, {n if n.startswith("classes.") else f"body.{n}": tensor for n, tensor in weights.items()}, start)


@contextmanager
def engine_errors(engine: str) -> Iterator[None]:
    """Turn an error of an engine, of any of its many kinds, into a sentence."""
    try:
        yield
    except Exception as error:
        reason = quoted(str(error).strip().partition("\n")[0], 200)
        raise UserError(f"{engine} cannot run what was written ({reason}), so nothing was exported; try --to hf.") from error


def must_be_free(to: Path) -> None:
    if not is_free(to):
        raise UserError(f"{to} exists already and is not an empty folder; choose another name, or remove it first.")


def report(measures: list[Measure], say: Say) -> None:
    for measure in measures:
        say(f"{measure} on {INPUTS} inputs, {measure.allowed} is allowed")


def config_of(start: InitCheckpoint) -> Any:
    settings = start.settings["model"]
    return FAMILIES[settings["family"]].config(**settings)


def body_of(start: InitCheckpoint) -> Any:
    """Build the body of a checkpoint, with the heads that it can have, and its weights in float32."""
    config, weights = config_of(start), start.weights
    family, heads = family_of(config), Heads(words=_has(weights, "head"), pooler=_has(weights, "pooler"))
    if family.has_any("token_heads", "image_classification"):
        classes, tags = (len(weights.get(f"{name}.project.weight", ())) for name in ("classes", "tags"))
        heads = replace(heads, classes=classes, tags=tags)
        heads = replace(heads, span=_has(weights, "span"), next_sentence=_has(weights, "next_sentence"))
    with empty_parameters():
        sizes = Sizes(vocabulary=start.vocabulary, target_vocabulary=start.target_vocabulary, heads=heads)
        model: Any = family.build(config, sizes, 0)
    return _filled(model, weights, start)


def _filled(model: Any, weights: dict[str, Tensor], start: InitCheckpoint) -> Any:
    own = model.state_dict()
    assign(model, {name: tensor.float() for name, tensor in weights.items() if name in own}, strict=False)
    if missing := next((name for name, parameter in model.named_parameters() if parameter.is_meta), None):
        raise UserError(f"{start.name} has no weight {missing}, which this model needs; export the run that it began with.")
    return model.float().eval()


def _has(weights: dict[str, Tensor], part: str) -> bool:
    return any(name.startswith(f"{part}.") for name in weights)


def in_numbers(weights: dict[str, Tensor], run: Run) -> dict[str, Tensor]:
    """A head that gives numbers as they were in training, where ours counts deviations from their mean."""
    scale, head = Scale.load(run.folder / LABELS), "classes.project"
    weight, bias = weights[f"{head}.weight"], weights[f"{head}.bias"]
    return weights | {f"{head}.weight": weight * scale.deviation, f"{head}.bias": bias * scale.deviation + scale.mean}


def described(run: Run, start: InitCheckpoint, model: Any) -> ExportedModel:
    """Return the model with its vocabularies and the tokens that begin and end what it reads or writes."""
    body, source = getattr(model, "body", model), start.tokenizer
    labels = tuple((run.read_json(LABELS) or {}).get("labels", ()))
    subject = ExportedModel(str(run.folder), model, source, start.target_tokenizer, labels=labels)
    if source is None:
        return subject
    config = body.config
    if body is not model:
        return replace(subject, pad=source.roles.pad or 0, files={VOCABULARY: marked(source, config)[0]})
    if family_of(config).has_any("seq2seq", "causal_lm"):
        marks = OutputMarks.of(run.recipe.decode, start.target_tokenizer or source)
        subject = replace(subject, start=marks.start, end=marks.ends[0] if marks.ends else None)
    else:
        around = marks_of(config, source.roles)
        subject = replace(subject, start=around.start, end=around.end)
    tokenizer_json, _ = public_tokenizer(source, config)
    if start.target_tokenizer is None:
        files: dict[str, str | bytes] = {VOCABULARY: tokenizer_json}
    else:
        files = dict(zip(PAIR_VOCABULARIES, (tokenizer_json, start.target_tokenizer.raw.to_str(pretty=True))))
    return replace(subject, pad=source.roles.pad or 0, files=files)

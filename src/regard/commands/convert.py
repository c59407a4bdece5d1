"""`regard import` and `regard export`: a public checkpoint becomes a run, and a run a folder that others open."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from regard.commands.export_engine import ENGINES, export_to_ctranslate2, export_to_onnx, in_numbers
from regard.commands.train import to_try
from regard.core.errors import UserError, nearest
from regard.core.files import draft_folder, is_free, read_bounded
from regard.data.sources.word_vectors import FILES as VECTOR_FILES
from regard.data.sources.word_vectors import write_vectors
from regard.families import FAMILIES, family_of
from regard.interop.huggingface import check as comparison
from regard.interop.huggingface import write_public
from regard.interop.huggingface.adapters import LoraSettings, is_adapter, write_adapter
from regard.interop.huggingface.bart import MARIAN
from regard.interop.huggingface.generation import write_generation
from regard.interop.huggingface.hub import local_folder
from regard.interop.huggingface.tokenizer import public_tokenizer
from regard.interop.sentencepiece_writer import marian_files
from regard.runs.folder import Run, Say
from regard.runs.lock import check_folder
from regard.runs.pretrained import GGUF_SUFFIX, InitCheckpoint, recipe_of, start_of
from regard.runs.recipe import HUB, Recipe
from regard.runs.task import TASKS
from regard.tasks.classification.predict import LABELS
from regard.tasks.registry import adopted
from regard.tasks.word_vectors.predict import vectors_of

FORMATS = ("hf", "peft", *ENGINES, *VECTOR_FILES)


def import_public(name: str, folder: Path, say: Say, assignments: Sequence[str] = (), check: bool = False) -> None:
    """Weights, settings, vocabulary and labels of a Hugging Face folder or hub id, as a run in `folder`.

    Where transformers is installed, what both compute is compared; with `check` a difference refuses the import.
    """
    if (folder / "recipe.toml").exists():
        raise UserError(f"{folder} holds a run already, and an import makes a new one; give another folder, or delete this one.")
    start = start_of(name)
    recipe = recipe_of(start, assignments)
    check_folder(recipe, folder)
    answers = adopted(start, recipe, torch.device("cpu"))
    vocabulary = start.smallest_vocabulary or getattr(recipe.model, "levels", 0)
    compared = compare_with_transformers(answers.model, name, vocabulary, check)
    with draft_folder(folder, last="recipe.toml") as draft:
        run = Run(draft)
        for file, vocabulary in answers.vocabularies.items():
            vocabulary.save(draft / file)
        run.store().save("best", 0, {"model": answers.model.state_dict()}, {"imported": name})
        run.write("recipe.toml", recipe.to_toml())
        run.write("data.json", json.dumps({"amounts": {}, "sha256": {}, "seals": run.seals()}, indent=2) + "\n")
        run.write("README.md", f"# {recipe.recipe.title}\n\nImported from `{name}`; not trained here.\n")
    for note in start.notes:
        say(note)
    say(compared)
    say(f"imported: {folder} for task {recipe.task.name}    try: {to_try(recipe, folder)}")


def compare_with_transformers(model: Any, name: str, vocabulary: int, check: bool) -> str:
    """Return one line on how far the outputs are from those of transformers; refuse with `check` what is not the same."""
    if name.endswith(GGUF_SUFFIX):
        if check:
            raise UserError(f"--check compares with transformers, which opens folders, and {name} is a file; leave it out.")
        return "not compared with transformers, which reads folders"
    if not comparison.installed():
        if check:
            raise UserError("--check compares with transformers, which is not installed; install it, or leave --check out.")
        return "not compared with transformers, which is not installed"
    source = local_folder(name.removeprefix("hf:"))
    try:
        found = comparison.largest_difference(model, source, vocabulary)
    except UserError as error:
        if check:
            raise
        return f"not compared: {error}"
    if found is None:
        if check:
            raise UserError(f"{name} has outputs of another shape in transformers, so that --check cannot compare; leave it out.")
        return "not compared: the outputs of transformers have another shape"
    if check and not found <= comparison.MOST:
        raise UserError(
            f"{name} differs from transformers by up to {found:.2g} on a probe input, more than {comparison.MOST:g}; it is not "
            "imported: open it there, and report this folder."
        )
    return f"largest difference from transformers on a probe input, in float32: {found:.1e}"


def export_run(folder: Path, to: Path, kind: str, say: Say, quantization: str = "") -> None:
    """The run's best weights as a folder that `transformers` opens; of vectors, `sentence-transformers` too.

    Word vectors become a file in that folder, as word2vec or GloVe write them. For engines see `export_engine.py`.
    """
    if kind not in FORMATS:
        raise UserError(f"--to {kind} is not a format{nearest(kind, FORMATS)}")
    if quantization and kind != "ctranslate2":
        raise UserError(f"--quantization {quantization} is for --to ctranslate2, and --to {kind} writes float32; leave it out.")
    if kind == "ctranslate2":
        export_to_ctranslate2(folder, to, quantization or "float32", say)
        return
    if kind == "onnx":
        export_to_onnx(folder, to, say)
        return
    if kind in VECTOR_FILES:
        _export_vectors(str(folder), to, kind, say)
        return
    run = Run.open(folder)
    recipe = run.recipe
    family, task = recipe.model.family, TASKS[recipe.task.name]
    if family not in task.exports:
        able = ", ".join(name for name in task.exports if task.takes(FAMILIES[name])) or "nothing yet"
        raise UserError(
            f"{folder} is a {family} for task {task.name}, which --to {kind} cannot write; for this task it writes {able}."
        )
    if kind == "peft":
        _export_adapter(run, to, say)
        return
    start = start_of(str(folder)).whole()
    settings = start.settings["model"]
    settings = settings if task.export_settings is None else task.export_settings(run, settings)
    config = FAMILIES[settings["family"]].config(**settings)
    written = start.target_tokenizer or start.tokenizer
    tokenizer_json, roles = public_tokenizer(written, config) if written is not None else ("", {})  # none of images
    labels = (run.read_json(LABELS) or {}).get("labels", ())
    generation = _generation(recipe, start)
    name = write_public(
        to,
        config,
        start.vocabulary,
        in_numbers(start.weights, run) if recipe.objective.name == "regression" else start.weights,
        tokenizer_json=tokenizer_json,
        roles=roles,
        labels=labels,
        beside=_beside(recipe, config, start) | _of_the_run(run, task.export_beside),
        target_vocabulary=start.target_vocabulary,
        generation=generation,
    )
    if generation.get("length_penalty") and recipe.decode.length_formula == "gnmt":
        say(
            "generation_config.json has decode.length_penalty, which transformers applies by another formula, so that beams may "
            "rank otherwise there; decode.length_formula=power ranks here as there."
        )
    if task.export_beside:
        say(f"{', '.join(task.export_beside)} has the scale of what the model was trained on: transformers does not read it.")
    say(f"exported: {to}    in Python: transformers.{name}.from_pretrained({str(to)!r})")


def _beside(recipe: Recipe, config: Any, start: InitCheckpoint) -> dict[str, Any]:
    """Return the files beside weights and settings: those of the task, and those of two tokenizers."""
    export_files = TASKS[recipe.task.name].export_files
    files = {} if export_files is None else export_files(recipe, config)
    if start.target_tokenizer is None:
        return dict(files)
    if config.family != MARIAN.config().family:
        raise UserError(
            f"{start.name} reads and writes with two vocabularies, and is a {config.family}; of the formats of transformers only "
            "Marian's has two: train with text.joint=true to export it."
        )
    return {**files, **marian_files(start.tokenizer, start.target_tokenizer, config.maximum_length)}


def _of_the_run(run: Run, names: Sequence[str]) -> dict[str, Any]:
    return {name: read_bounded(run.folder / name, within=run.folder) for name in names if (run.folder / name).is_file()}


def _export_adapter(run: Run, to: Path, say: Say) -> None:
    """Write the low-rank adapters of a run, and the heads that learned with them, for the public model that it began with."""
    train, base = run.recipe.train, run.recipe.task.init_from.removeprefix(HUB)
    if not train.lora:
        raise UserError(f"{run.folder} was trained without adapters; train with train.lora=8, or export it with --to hf.")
    if (Path(base) / "recipe.toml").exists() or is_adapter(Path(base)):
        raise UserError(
            f"{run.folder} began with {base}, which peft cannot open; export that with --to hf, and begin with what that makes."
        )
    tensors = run.weights().tensors("model")
    weights = {name.removeprefix("body."): tensor for name, tensor in tensors.items()}
    labels = (run.read_json(LABELS) or {}).get("labels", ())
    settings = LoraSettings(train.lora, train.lora_alpha, train.lora_dropout)
    write_adapter(to, run.recipe.model, weights, base, settings, labels)
    say(f"exported: {to}    in Python: peft.PeftModel.from_pretrained(model, {str(to)!r}), with {base} as model")


def _generation(recipe: Recipe, start: InitCheckpoint) -> dict[str, Any]:
    """Return what generation_config.json says of the run's search."""
    family = family_of(recipe.model)
    if not family.has_any("causal_lm", "seq2seq"):
        return {}
    return write_generation(recipe.decode, start.target_tokenizer or start.tokenizer, reads_a_source=family.has("seq2seq"))


def _export_vectors(name: str, to: Path, kind: str, say: Say) -> None:
    """Word vectors, of a run or of a file in another format, as a file in a new folder."""
    vectors, path = vectors_of(name), to / VECTOR_FILES[kind]
    if not is_free(to):
        raise UserError(f"{to} exists already; give a new folder.")
    with draft_folder(to) as draft:
        write_vectors(draft / path.name, vectors, kind)
    say(f"exported: {path}, {len(vectors):,} words of width {vectors.width}")

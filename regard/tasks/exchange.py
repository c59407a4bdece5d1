"""`regard import` and `regard export`: a public checkpoint becomes a run, and a run a folder that others open."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from regard.config import override
from regard.errors import UserError, nearest
from regard.families.public import write_public
from regard.recipe import Recipe, Tables, made
from regard.tasks.claim import check_folder
from regard.tasks.run import Run, Say
from regard.tasks.start import Start, start_of
from regard.text.tokenizer import Tokenizer

FORMATS = ("hf",)
THEIR_ROLES = {"sos": "bos", "eos": "eos", "pad": "pad", "unk": "unk", "sep": "sep", "cls": "cls", "mask": "mask"}


def recipe_of(start: Start, assignments: Sequence[str] = ()) -> Recipe:
    """What a run of these weights would say about itself; it has no data, and a search that suits its task."""
    family = start.settings["model"]["family"]
    if family != "gpt":
        raise UserError(
            f"{start.name} is a {family}, and only GPT language models can be opened as they are; train from it with task.start."
        )
    about = {"name": Path(start.name).name or family, "title": f"{start.name}, imported", "paper": ""}
    rest: Tables = {"data": {}, "objective": {}, "train": {"steps": 1, "warmup": 0}, "decode": {"search": "sample"}}
    tables: Tables = {"recipe": about, "task": {"name": "write"}, **start.settings, **rest}
    override(tables, list(assignments))
    return made(tables)


def import_public(name: str, folder: Path, say: Say) -> None:
    """Weights, settings and vocabulary of a Hugging Face folder or hub id, as a run in `folder`."""
    start = start_of(name)
    recipe = recipe_of(start)
    check_folder(recipe, folder)
    if (folder / "recipe.toml").exists():
        raise UserError(f"{folder} holds a run already; give another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    run = Run(folder)
    with run.locked():
        start.tokenizer.save(folder / "tokenizer.json")
        run.store().save("best", 0, {"model": start.weights}, {"imported": name})
        run.write("recipe.toml", recipe.to_toml())
        run.write("data.json", json.dumps({"amounts": {}, "sha256": {}, "seals": run.seals()}, indent=2) + "\n")
        run.write("README.md", f"# {recipe.recipe.title}\n\nImported from `{name}`; not trained here.\n")
    for note in start.notes:
        say(note)
    say(f'imported: {folder}    try: regard predict {folder} "..."')


def export_run(folder: Path, to: Path, kind: str, say: Say) -> None:
    """The run's best weights as a folder that `transformers` opens."""
    if kind not in FORMATS:
        raise UserError(f"--to {kind} is not a format{nearest(kind, FORMATS)}")
    run = Run.open(folder)
    recipe = run.recipe
    if recipe.model.family != "gpt" or recipe.task.name != "write":
        raise UserError(
            f"{folder} is a {recipe.model.family} for task {recipe.task.name}; --to hf knows GPT language models only as yet."
        )
    tokenizer, weights = Tokenizer.load(folder / "tokenizer.json", foreign=True), run.weights().tensors("model")
    roles = {
        THEIR_ROLES[role]: str(tokenizer.raw.id_to_token(i)) for role, i in tokenizer.roles._asdict().items() if i is not None
    }
    vocabulary = len(weights["embed.tokens.weight"])
    write_public(to, recipe.model, vocabulary, weights, tokenizer_json=tokenizer.raw.to_str(pretty=True), roles=roles)
    say(f"exported: {to}    in Python: transformers.AutoModelForCausalLM.from_pretrained({str(to)!r})")

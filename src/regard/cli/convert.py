"""Verbs that convert runs: import and export of public checkpoints, and pruning."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.shared import Device, Plugins, RunFolder, Settings, examples, say, show_line

verbs = typer.Typer(rich_markup_mode=None)


@verbs.command(
    name="import",
    epilog=examples(
        "regard import gpt2 runs/gpt2",
        "regard import models/my-bert runs/mine",
        "regard import models/my-bert runs/vectors task.name=embedding",
    ),
)
def import_(
    source: Annotated[str, typer.Argument(metavar="FOLDER|HUB_ID", help="a Hugging Face folder, or a name on its hub")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="folder of the new run")],
    settings: Settings = None,
    check: Annotated[
        bool, typer.Option("--check", help="refuse a model whose outputs differ from transformers by more than 0.001")
    ] = False,
) -> None:
    """Make a run of a public checkpoint (GPT, LLaMA, T5, BART, Marian or BERT).

    GPT-1, GPT-2, LLaMA, Mistral, Qwen2, Qwen3, T5, mT5, BART, mBART, Marian, BERT, RoBERTa, CamemBERT, DistilBERT and ELECTRA.
    """
    from regard.commands.convert import import_public

    import_public(source, folder, say, settings or [], check)


@verbs.command(epilog=examples("regard export runs/gpt exported --to hf"))
def export(
    run: RunFolder,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a new folder")],
    to: Annotated[
        str, typer.Option("--to", metavar="FORMAT", help="hf, for transformers; word2vec, word2vec-binary or glove")
    ] = "hf",
) -> None:
    """Write a run in a format of other programs."""
    from regard.commands.convert import export_run

    export_run(run, folder, to, say)


@verbs.command(
    epilog=examples(
        "regard prune runs/translate runs/half --keep 0.5",
        "regard prune runs/translate runs/few --keep 0.3 --by L0 --curve curve.png",
        "regard prune runs/mine runs/half --data valid.en,valid.de decode.search=greedy --by ablation",
    )
)
def prune(
    run: RunFolder,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="a new folder, for the pruned run")],
    settings: Settings = None,
    keep: Annotated[float, typer.Option(metavar="SHARE", help="fraction of the heads to keep")] = 0.5,
    by: Annotated[str, typer.Option(metavar="WAY", help="importance, normalised, ablation, random or L0")] = "importance",
    data: Annotated[Path | None, typer.Option(metavar="FILE", help="data to measure on; by default the validation data")] = None,
    curve: Annotated[Path | None, typer.Option(metavar="FILE", help="a picture: .png, .svg, .html or .json")] = None,
    penalty: Annotated[float, typer.Option(metavar="NUMBER", help="of --by L0: penalty for each open gate")] = 0.01,
    steps: Annotated[int, typer.Option(metavar="N", help="of --by L0: steps to train the gates for")] = 300,
    device: Device = None,
    plugin: Plugins = None,
) -> None:
    """Remove attention heads: a smaller run, with its scores.

    Heads are removed from the least important on; each attention keeps at least one. The score is printed as heads are removed.
    """
    from regard.commands.prune import Wish, prune_run

    wish = Wish(keep=keep, by=by, data=data, penalty=penalty, steps=steps)
    for line in prune_run(run, out, wish, settings or [], curve, device, say):
        show_line(line)

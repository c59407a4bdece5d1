"""The verb `serve`: models behind HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.shared import Device, Plugins, TextsAndSettings, examples, only_texts, say, settings_of, show_line

verbs = typer.Typer(rich_markup_mode=None)


@verbs.command(
    epilog=examples(
        "regard serve runs/demo",
        "regard serve runs/gpt runs/translate decode.beam=4 --port 8000",
        "regard serve runs/gpt --host 0.0.0.0 --key-file keys.txt --workers 2",
        "regard serve runs/gpt --limit rows=128 --limit timeout=60",
        "regard serve runs/gpt --dry-run",
    ),
    cls=TextsAndSettings,
)
def serve(
    context: typer.Context,
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN|KEY=VALUE", help="runs or public folders; by default all in runs/", callback=only_texts),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="where to listen; another than this machine needs keys")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="0: any that is free")] = 8418,
    key_file: Annotated[Path | None, typer.Option("--key-file", metavar="FILE", help="keys, one on each line")] = None,
    device: Device = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", help="processes, each with models of its own")] = 1,
    limit: Annotated[
        list[str] | None, typer.Option("--limit", metavar="NAME=VALUE", help="a limit, such as rows=128 or timeout=60")
    ] = None,
    watch: Annotated[float, typer.Option("--watch", metavar="SECONDS", help="look for newer checkpoints; 0: at SIGHUP")] = 0.0,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="log what is asked and answered")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="log no requests")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print how much memory it takes, and serve nothing")] = False,
    plugin: Plugins = None,
) -> None:
    """Serve models over HTTP, as OpenAI's API does and by task.

    Requests are batched together, whenever they come. A line of JSON is logged for each. docs/guides/serving.md has every route.
    """
    from regard.serve.launch import Serving, plan
    from regard.serve.launch import serve as start

    serving = Serving(
        host=host,
        port=port,
        key_file=key_file,
        device=device,
        settings=settings_of(context),
        limits=limit or [],
        workers=workers,
        watch=watch,
        log_texts=log_texts,
        quiet=quiet,
    )
    if dry_run:
        for line in plan(runs or [], serving, say):
            show_line(line)
        return
    raise typer.Exit(start(runs or [], serving, say))

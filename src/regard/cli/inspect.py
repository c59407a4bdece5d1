"""Verbs that look inside: pictures and tables of attention, the web page, a model or a setting explained, and speed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.shared import (
    Device,
    Json,
    Picture,
    Plugins,
    RunName,
    Settings,
    TextsAndSettings,
    examples,
    only_texts,
    say,
    settings_of,
    show_line,
)
from regard.core.errors import UserError

verbs = typer.Typer(rich_markup_mode=None)
VIEWS = "heads, weights, roles, ..."  # an unknown name lists all; the registry itself would import torch


@verbs.command(
    epilog=examples(
        'regard lens runs/translate "the animal did not cross the street because it was too tired"',
        'regard lens runs/translate "the cat sleeps" --part encoder --out attention.html',
        'regard lens runs/translate "the cat sleeps" --show heads --out heads.png',
        'regard lens runs/vqa-scenes image.png "what colour is the circle?" --out heat.png',
        'regard lens hf:bert-base-uncased --word bank "He sat on the river bank." "She put cash in the bank."',
        "regard lens runs/vit photo.png --show patch --patch 3,4 --out patch.png",
        "regard lens runs/bert --word bank --file sentences.tsv --out bank.html",
    ),
    cls=TextsAndSettings,
)
def lens(
    context: typer.Context,
    run: RunName,
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT|KEY=VALUE", help="text or image", callback=_one_text_without_a_word)
    ] = None,
    show: Annotated[str | None, typer.Option(metavar="VIEW", is_eager=True, help=f"a view: {VIEWS}")] = None,
    out: Picture = None,
    part: Annotated[str | None, typer.Option(metavar="PART", help="cross, decoder or encoder")] = None,
    target: Annotated[str | None, typer.Option(metavar="TEXT", help="of --show: the output to score")] = None,
    hypothesis: Annotated[int | None, typer.Option(metavar="N", help="of --show: which hypothesis, from 0")] = None,
    data: Annotated[Path | None, typer.Option(metavar="FILE", help="of --show: a file of texts")] = None,
    head: Annotated[int | None, typer.Option(metavar="N", help="of --show: one head")] = None,
    patch: Annotated[str | None, typer.Option(metavar="ROW,COLUMN", help="of --show: a patch, from 1")] = None,
    words: Annotated[bool, typer.Option("--words", help="of --show: merge the tokens of a word")] = False,
    values: Annotated[bool, typer.Option("--values", help="of --show: weights times the norm of the value vectors")] = False,
    specials: Annotated[str | None, typer.Option(metavar="HOW", help="of --show: keep, hide or renormalise")] = None,
    word: Annotated[str | None, typer.Option(metavar="WORD", is_eager=True, help="compare its vectors in sentences")] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="of --word: sentences, one a line")] = None,
    layer: Annotated[int | None, typer.Option(metavar="N", help="of --show or --word: one layer")] = None,
    beside: Annotated[str | None, typer.Option(metavar="RUN|FILE", help="of --word: word vectors to compare with")] = None,
    device: Device = None,
    plugin: Plugins = None,
) -> None:
    """Show what a model attends to, as text or a picture.

    Without options: what each output token attended to. With --show: one of many views of a text or a file of texts. With --word:
    distances of a word's vectors in sentences, which may end in a tab and its sense; several runs, RUN,RUN,..., are compared.
    """
    settings = settings_of(context)
    views = {"--target": target, "--hypothesis": hypothesis, "--data": data, "--head": head, "--specials": specials}
    views |= {"--words": words or None, "--values": values or None, "--patch": patch}
    if word is not None:
        _only("is not for --word; leave one of them", {"--show": show, "--part": part, **views})
        _only("is not for --word, which only reads; as a text it goes after --; leave it", dict.fromkeys(settings[:1], True))
        from regard.commands.lens import look_at_word

        lines = look_at_word(run, word, text or [], file, layer, out, device, beside)
    elif show is not None:
        _only("is only for --word; give --word WORD, or leave it", {"--file": file, "--beside": beside})
        from regard.commands import views as of_commands

        asked = of_commands.ViewRequest(
            run=run, device=device, text=text[0] if text else None, target=target, hypothesis=hypothesis, data=data, layer=layer,
            head=head, part=part, patch=patch, words=words, values=values, specials=specials, settings=tuple(settings),
        )  # fmt: skip
        lines = of_commands.show(show, asked, out)
    else:
        _only("is only for --word; give --word WORD, or leave it", {"--file": file, "--layer": layer, "--beside": beside})
        _only("is only for --show; give --show VIEW, or leave it", views)
        from regard.commands.lens import look

        first, *more = text or [""]
        lines = look(run, first, part, out, device, settings, *more)
    for line in lines:
        show_line(line)


def _one_text_without_a_word(context: typer.Context, texts: list[str] | None) -> list[str] | None:
    """Check the number of texts: one to draw, or an image and a question; any number with --word, at most one with --show."""
    texts = only_texts(context, texts)
    expected = (0, 1) if context.params.get("show") is not None else (1, 2)
    if context.params.get("word") is None and len(texts or []) not in expected:
        extra = f"one text is drawn at a time, and {texts[1]!r} is a second" if texts else "give a text to look into"
        raise typer.BadParameter(f"{extra}; --word WORD looks at a word in several.")
    return texts


def _only(sentence: str, options: Mapping[str, object]) -> None:
    """Refuse options that were given where they have no meaning."""
    for option, given in options.items():
        if given is not None:
            raise UserError(f"{option}{'' if given is True else f' {given}'} {sentence} out.")


def _no_key_in_the_process_list(given: str | None) -> None:
    if given is not None:
        raise typer.BadParameter(
            "a key on the command line can be read by all users of this machine; write it into a file and give --key-file FILE, "
            "or set REGARD_STUDIO_KEY."
        )


@verbs.command(
    epilog=examples(
        "regard studio runs/demo",
        "regard studio runs/demo runs/gpt --port 8000",
        "regard studio runs/demo decode.beam=8",
        "regard studio runs/demo --host 0.0.0.0 --key-file studio.key",
    ),
    cls=TextsAndSettings,
)
def studio(
    context: typer.Context,
    run: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN|KEY=VALUE", help="runs to open; by default all in runs/", callback=only_texts),
    ] = None,
    port: Annotated[int, typer.Option(metavar="N", help="port; 0 takes a free one")] = 8417,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="address to listen on; other machines need a key")] = "127.0.0.1",
    key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="file with the access key; or set REGARD_STUDIO_KEY")
    ] = None,
    allow_host: Annotated[list[str] | None, typer.Option(metavar="NAME", help="another host name to answer to")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="only print the address")] = False,
    device: Device = None,
    plugin: Plugins = None,
    key: Annotated[str | None, typer.Option(hidden=True, callback=_no_key_in_the_process_list)] = None,
) -> None:
    """Explore runs in the browser: heads, searches, arithmetic.

    It listens on this machine alone, unless --host says otherwise, and needs no network.
    """
    from regard.studio.launch import Served, serve

    serve(run or [], Served(host, port, allow_host or (), key_file, not no_browser), device, say, settings_of(context))


@verbs.command(
    epilog=examples(
        "regard explain translate-base",
        "regard explain gpt3-175b",
        "regard explain runs/translate --json",
        "regard explain lra-text model.visibility='bigbird(64)' --out pattern.png",
        "regard explain train.warmup",
    )
)
def explain(
    target: Annotated[
        str,
        typer.Argument(metavar="RECIPE|RUN|SIZE|KEY", help="a recipe, a run, a size (gpt3-175b) or a setting (train.warmup)"),
    ],
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="the attention pattern as a picture: .png or .svg")] = None,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Print a model as a tree of shapes and parameters, or a setting.

    A setting, such as train.warmup, is explained by its meaning, type, default and the tasks or families that take it; a section,
    such as train, by the meanings of its keys.
    """
    from regard.commands.reference import explain_key, find_keys, is_key

    if is_key(target):
        if settings or out is not None:
            raise UserError(f"{target} is a setting, explained without {out or (settings or [])[0]}; leave that out.")
        found = [key.as_dict() for key in find_keys(target)] if as_json else []
        show_line(json.dumps(found, indent=2) if as_json else explain_key(target))
        return
    from regard.commands.explain import explain_picture, explain_rows, explain_tree

    if out is not None:
        explain_picture(target, settings or [], out)
    show_line(json.dumps(explain_rows(target, settings or []), indent=2) if as_json else explain_tree(target, settings or []))


@verbs.command(epilog=examples("regard bench attention", "regard bench lra listops seeds=1", "regard bench --render"))
def bench(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="benchmark to run; without one, all are listed")] = None,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[ARGUMENT]...", help="arguments of the benchmark")] = None,
    render: Annotated[bool, typer.Option("--render", help="write docs/performance.md from all results")] = False,
) -> None:
    """Measure speed against peers, and document it.

    A measurement replaces the one recorded in benchmarks/results.
    """
    from regard.commands.bench import listing, measure, write_document

    for line in measure(name, arguments or []) if name else [] if render else listing():
        show_line(line)
    for path in write_document() if render else []:
        show_line(f"written: {path}")


@verbs.command()
def doctor(as_json: Json = False) -> None:
    """Print versions, devices and disk space for a bug report."""
    from regard.commands.doctor import examine, report

    findings = examine()
    show_line(json.dumps(findings, indent=2) if as_json else report(findings))

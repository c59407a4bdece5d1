"""Verbs that look inside a run: a picture of what it attended to, or a page to look around in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.shared import Device, Plugins, RunName, TextsAndSettings, examples, only_texts, say, settings_of, show_line
from regard.core.errors import UserError

verbs = typer.Typer(rich_markup_mode=None)
VIEWS = "heads, weights, roles, ..."  # a name that is none lists all; help should not wait for torch, which their table needs


@verbs.command(
    epilog=examples(
        'regard lens runs/translate "the animal did not cross the street because it was too tired"',
        'regard lens runs/translate "the cat sleeps" --part encoder --out attention.html',
        'regard lens runs/translate "the cat sleeps" --show heads --out heads.png',
        'regard lens hf:bert-base-uncased --word bank "He sat on the river bank." "She put cash in the bank."',
        "regard lens runs/bert --word bank --file sentences.tsv --out bank.html",
    ),
    cls=TextsAndSettings,
)
def lens(
    context: typer.Context,
    run: RunName,
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT|KEY=VALUE", help="to look into", callback=_one_text_without_a_word)
    ] = None,
    show: Annotated[str | None, typer.Option(metavar="VIEW", is_eager=True, help=f"another view: {VIEWS}")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="a picture: .png, .svg, .html or .json")] = None,
    part: Annotated[str | None, typer.Option(metavar="PART", help="cross, decoder or encoder")] = None,
    target: Annotated[str | None, typer.Option(metavar="TEXT", help="of --show: what the model is to say")] = None,
    hypothesis: Annotated[int | None, typer.Option(metavar="N", help="of --show: which of its own outputs, from 0")] = None,
    data: Annotated[Path | None, typer.Option(metavar="FILE", help="of --show: many texts instead of one")] = None,
    head: Annotated[int | None, typer.Option(metavar="N", help="of --show: one head")] = None,
    words: Annotated[bool, typer.Option("--words", help="of --show: take pieces of a word together")] = False,
    values: Annotated[bool, typer.Option("--values", help="of --show: weights times the length of what they bring")] = False,
    specials: Annotated[str | None, typer.Option(metavar="HOW", help="of --show: keep, hide or renormalise")] = None,
    word: Annotated[str | None, typer.Option(metavar="WORD", is_eager=True, help="how its vector follows its context")] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="sentences for --word, one on each line")] = None,
    layer: Annotated[int | None, typer.Option(metavar="N", help="of --show, or whose matrix --word draws")] = None,
    beside: Annotated[str | None, typer.Option(metavar="RUN|FILE", help="of --word: word vectors to compare with")] = None,
    device: Device = None,
    plugin: Plugins = None,
) -> None:
    """Draw what each written word attended to, or look otherwise.

    With --show: another view of the model and the text, or of a file of them. With --word: the distance between a word's uses,
    layer by layer; a sentence may end in a tab and the word's sense there. Several runs, RUN,RUN,..., then stand side by side.
    """
    settings = settings_of(context)
    views = {"--target": target, "--hypothesis": hypothesis, "--data": data, "--head": head, "--specials": specials}
    views |= {"--words": words or None, "--values": values or None}
    if word is not None:
        _only("is not for --word; leave one of them", {"--show": show, "--part": part, **views})
        if settings:
            raise UserError(
                f"{settings[0]} is not for --word, which only reads; leave it out, or put it after -- if it is a text."
            )
        from regard.commands.lens import look_at_word

        lines = look_at_word(run, word, text or [], file, layer, out, device, beside)
    elif show is not None:
        _only("is only for --word; give --word WORD, or leave it", {"--file": file, "--beside": beside})
        from regard.commands.views import ViewRequest
        from regard.commands.views import show as shown

        asked = ViewRequest(
            run=run, device=device, text=text[0] if text else None, target=target, hypothesis=hypothesis, data=data, layer=layer,
            head=head, part=part, words=words, values=values, specials=specials, settings=tuple(settings),
        )  # fmt: skip
        lines = shown(show, asked, out)
    else:
        _only("is only for --word; give --word WORD, or leave it", {"--file": file, "--layer": layer, "--beside": beside})
        _only("is only for --show; give --show VIEW, or leave it", views)
        from regard.commands.lens import look

        lines = look(run, (text or [""])[0], part, out, device, settings)
    for line in lines:
        show_line(line)


def _one_text_without_a_word(context: typer.Context, texts: list[str] | None) -> list[str] | None:
    """Attention is drawn of one text; a word is looked at in several, or in a file; a view says itself what it needs."""
    texts = only_texts(context, texts)
    expected = (0, 1) if context.params.get("show") is not None else (1,)
    if context.params.get("word") is None and len(texts or []) not in expected:
        extra = f"one text is drawn at a time, and {texts[1]!r} is a second" if texts else "give a text to look into"
        raise typer.BadParameter(f"{extra}; --word WORD looks at a word in several.")
    return texts


def _only(told: str, options: Mapping[str, object]) -> None:
    """Options that were given where they mean nothing."""
    for option, given in options.items():
        if given is not None:
            raise UserError(f"{option}{'' if given is True else f' {given}'} {told} out.")


def _no_key_in_the_process_list(given: str | None) -> None:
    if given is not None:
        raise typer.BadParameter(
            "a key on the command line can be read by everybody on this machine; write it into a file and give --key-file FILE, "
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
        typer.Argument(metavar="RUN|KEY=VALUE", help="runs to look into; by default all in runs/", callback=only_texts),
    ] = None,
    port: Annotated[int, typer.Option(metavar="N", help="0 is any that is free")] = 8417,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="a public one has a key")] = "127.0.0.1",
    key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="the key; or REGARD_STUDIO_KEY; else a public address has a new one")
    ] = None,
    allow_host: Annotated[list[str] | None, typer.Option(metavar="NAME", help="another name it may be called by")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="only print the address")] = False,
    device: Device = None,
    plugin: Plugins = None,
    key: Annotated[str | None, typer.Option(hidden=True, callback=_no_key_in_the_process_list)] = None,
) -> None:
    """A page in your browser to look inside: heads, searches, sums.

    It runs on this machine, for this machine, and needs no network.
    """
    from regard.studio.launch import Served, serve

    serve(run or [], Served(host, port, allow_host or (), key_file, not no_browser), device, say, settings_of(context))

"""Verbs that use a run (evaluate, predict, generate, chat, score) or make another form of one (import, export, prune)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.shared import (
    Device,
    Json,
    Picture,
    Plugins,
    RunFolder,
    RunName,
    Settings,
    TextsAndSettings,
    Weights,
    checked,
    examples,
    only_texts,
    say,
    settings_of,
    show,
    show_line,
)
from regard.core.errors import UserError

verbs = typer.Typer(rich_markup_mode=None)


@verbs.command(
    epilog=examples(
        "regard evaluate runs/translate",
        "regard evaluate runs/translate --weights last",
        "regard evaluate runs/translate data.test=new.en,new.fr decode.beam=8 --output outputs.txt",
    )
)
def evaluate(
    run: RunFolder,
    settings: Settings = None,
    device: Device = None,
    plugin: Plugins = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="also write the outputs, a line each; of a forecaster, a picture (.png)")
    ] = None,
    weights: Weights = "",
    as_json: Json = False,
) -> None:
    """Score a run on its test set, or on another."""
    settings = checked(run, settings)
    from regard.commands.evaluate import score_run

    scored = score_run(run, settings, device, output, weights)
    show_line(json.dumps(scored.as_dict(), indent=2) if as_json else "\n".join(scored.lines()))


@verbs.command(
    name="generate",
    help="Continue prompts with a language model; the same as predict.",
    epilog=examples(
        'regard generate runs/gpt "The import statement"', 'regard generate hf:gpt2 "The sky is" decode.temperature=0.7'
    ),
    cls=TextsAndSettings,
)
@verbs.command(
    epilog=examples(
        'regard predict runs/translate "the small cat sees the red house"',
        "regard predict runs/translate --input new.en --output new.fr",
        "cat new.en | regard predict runs/translate decode.beam=8 decode.n_best=3 --json",
    ),
    cls=TextsAndSettings,
)
def predict(
    context: typer.Context,
    run: RunName,
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT|KEY=VALUE", help="without a text: lines of --input or standard input", callback=only_texts),
    ] = None,
    input: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE", help="one text on each line; or a table, which comes back with new columns"),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", metavar="FILE", help="a file for the results")] = None,
    weights: Weights = "",
    device: Device = None,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Apply a run to texts or to a file.

    Results are printed as they are ready, in the order of the texts; an empty line gives an empty line. An argument such as
    decode.beam=8 is a setting; a text of that form, or one that begins with -, goes after --. On a terminal, control characters
    in generated text are shown as escapes; a pipe gets them raw. One text may have 1,000,000 characters.
    On N GPUs: 'torchrun --nproc-per-node N -m regard predict RUN --input FILE --output FILE'.
    """
    if text and input is not None:
        raise UserError(f"both a text and --input {input} were given; give one of them.")
    if not text and input is None and sys.stdin is None:
        raise UserError("standard input is closed, and no text was given; type one, give --input FILE, or pipe lines in.")
    settings = checked(run, settings_of(context))
    from regard.commands import predict as predicting

    predicting.predict(run, text, input, output, settings, device, as_json, show, weights)


@verbs.command(
    epilog=examples(
        "regard chat runs/chat-multi",
        "regard chat runs/chat-retrieval data.nearest=5",
        'regard chat hf:gpt2 --before "A talk between two old friends."',
    )
)
def chat(
    run: RunName,
    settings: Settings = None,
    you: Annotated[str, typer.Option(metavar="NAME", help="your name in the transcript")] = "You",
    it: Annotated[str, typer.Option(metavar="NAME", help="the model's name in the transcript")] = "Model",
    before: Annotated[str, typer.Option(metavar="TEXT", help="text above the transcript")] = "",
    device: Device = None,
    plugin: Plugins = None,
) -> None:
    """Chat with a bot or a language model in the terminal.

    A language model continues the transcript; its oldest turns are dropped when they no longer fit the window. A bot trained on
    dialogues reads as many turns as in training. Lines may be piped in, one turn a line.
    """
    settings = checked(run, settings)
    from regard.commands.chat import chat as converse

    if sys.stdin is None:
        raise UserError("standard input is closed, so there are no turns to reply to; leave <&- out, or pipe lines in.")
    converse(run, you, it, before, settings, device, _typed_lines(f"{you}: "), show, say)


def _typed_lines(prompt: str) -> Iterator[str]:
    """Yield lines of standard input, with a prompt on a terminal."""
    number = 0
    while True:
        number += 1
        try:
            yield input(prompt if sys.stdin.isatty() else "")
        except EOFError:
            return
        except UnicodeDecodeError as error:
            raise UserError(
                f"standard input, line {number:,} or after it: byte 0x{error.object[error.start]:02X} is not UTF-8; convert "
                "the text first, for instance with iconv -f LATIN1 -t UTF-8."
            ) from None


@verbs.command(
    epilog=examples(
        "regard score runs/gpt book.txt",
        "regard score runs/gpt posts.jsonl --each --json",
        "regard score hf:gpt2 questions.jsonl --by per_byte",
    )
)
def score(
    run: RunName,
    what: Annotated[str, typer.Argument(metavar="FILE", help="text, a folder, a pattern, JSONL, hf:NAME, or questions in JSONL")],
    settings: Settings = None,
    each: Annotated[bool, typer.Option("--each", help="a line for each document: perplexity, bits per byte, text")] = False,
    by: Annotated[str, typer.Option(metavar="SCALE", help="of answers: total, per_token, per_byte or above_aside")] = "per_byte",
    device: Device = None,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Score texts or answers by a language model's likelihood.

    A line of questions is {"context": "The sky is", "options": ["blue", "a fish"], "answer": 0}; the answer may be left out.
    """
    settings = checked(run, settings)
    from regard.commands.evaluate import score as scored

    for line in scored(run, what, device, settings, each=each, scale=by, as_json=as_json):
        show_line(line)


@verbs.command(
    name="import",
    epilog=examples(
        "regard import gpt2 runs/gpt2",
        "regard import models/my-bert runs/mine",
        "regard import models/my-bert runs/vectors task.name=embedding",
        "regard import models/llama.q8_0.gguf runs/llama",
    ),
)
def import_(
    source: Annotated[
        str, typer.Argument(metavar="FOLDER|HUB_ID|FILE.gguf", help="a Hugging Face folder, a name on its hub, or a GGUF file")
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="folder of the new run")],
    settings: Settings = None,
    check: Annotated[
        bool, typer.Option("--check", help="refuse a model whose outputs differ from transformers by more than 0.001")
    ] = False,
) -> None:
    """Make a run of a public checkpoint, such as GPT, T5 or BERT.

    GPT-1, GPT-2, LLaMA, Mistral, Qwen2, Qwen3, T5, mT5, BART, mBART, Marian, BERT, RoBERTa, CamemBERT, DistilBERT and ELECTRA.
    Of llama.cpp's GGUF files, LLaMA and GPT-2 with f32, f16, q8_0 or q4_0.
    """
    from regard.commands.convert import import_public

    import_public(source, folder, say, settings or [], check)


@verbs.command(
    epilog=examples(
        "regard export runs/gpt exported --to hf",
        "regard export runs/tuned adapter --to peft",
        "regard export runs/translate fast --to ctranslate2 --quantization int8",
    )
)
def export(
    run: RunFolder,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a new folder")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="hf, for transformers; ctranslate2; onnx; peft, adapters alone; word2vec, word2vec-binary or glove",
        ),
    ] = "hf",
    quantization: Annotated[
        str, typer.Option(metavar="TYPE", help="of ctranslate2: float32, float16, bfloat16, int8, int8_float16, int8_bfloat16")
    ] = "",
) -> None:
    """Write a run in a format of other programs. For engines, both sides are run first, and what differs is refused."""
    from regard.commands.convert import export_run

    export_run(run, folder, to, say, quantization)


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
    curve: Picture = None,
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

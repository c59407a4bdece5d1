"""The command line: parse, call, print. Every verb is a few lines; what they do lives in `tasks`, `lens` and `recipe`."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.errors import UserError

app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Regard: the whole Transformer family on one attention core. Train, decode, look inside.",
    epilog="Start with 'regard demo'. 'regard VERB --help' tells more about each.",
)
Mistyped: type[typer.BadParameter] = typer.BadParameter.__bases__[0]
"""What typer raises for every wrong command line; this is the one way to say it that all its versions share."""

RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="a name from 'regard recipes', or a .toml file")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="a run, a Hugging Face folder, or hf:NAME on its hub")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="the folder of a run")]
Settings = Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="such as train.steps=500 or decode.beam=8")]
Choices = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="such as decode.beam=8")]
Device = Annotated[str | None, typer.Option(metavar="NAME", help="cpu, cuda or cuda:N; by default a GPU where there is one")]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]
VIEWS = "heads, weights, roles, ..."  # a name that is none lists all; help should not wait for torch, which their table needs


def _examples(*lines: str) -> str:
    """For the end of a help page; after \\b typer keeps line breaks."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="where the run goes")] = Path("runs/demo"), device: Device = None
) -> None:
    """One minute: train a translator, score it, look inside."""
    from regard.tasks.demo import run_demo

    run_demo(out, device, _say)


@app.command()
def recipes(as_json: Json = False) -> None:
    """What can be trained, how long, which score."""
    from regard.recipe import builtin_names, load_recipe
    from regard.tasks.listing import recipe_rows, recipe_table

    found = [load_recipe(name) for name in builtin_names()]
    print(json.dumps(recipe_rows(found), indent=2, ensure_ascii=False) if as_json else recipe_table(found))


@app.command(
    epilog=_examples(
        "regard train translate",
        "regard train translate-small data.train=train.en,train.de data.valid=valid.en,valid.de --out runs/mine",
        "regard train translate model.width=128 train.steps=2000 --out runs/wide --dry-run",
    )
)
def train(
    recipe: RecipeName,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="where the run goes; by default runs/RECIPE")] = None,
    device: Device = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="check everything, estimate the cost, train nothing")] = False,
) -> None:
    """Train a recipe; the same command again continues it.

    Data is a .tsv, .csv or .jsonl file, or two aligned text files joined by a comma; 'regard explain RECIPE' shows the model.
    On N GPUs: 'torchrun --nproc-per-node N -m regard train RECIPE ...'.
    """
    from regard.tasks.run import choose_device
    from regard.tasks.start import load_recipe_to_train
    from regard.tasks.training import dry_run_lines, prepare_run, train_prepared
    from regard.train.launch import together

    with together() as world:
        say = _say if world.leads else _say_nothing
        resolved = load_recipe_to_train(recipe, settings or [], out or Path("runs") / Path(recipe).stem)
        folder = out or Path("runs") / resolved.recipe.name
        where = world.place(choose_device(device))
        if dry_run:
            for line in (resolved.to_toml(), *dry_run_lines(resolved, where, say)) if world.leads else ():
                print(line)
            return
        prepared = prepare_run(resolved, folder, where, say, world)
        say(f"\n{resolved.to_toml()}")
        outcome = train_prepared(prepared, folder, where, say, world)
    if outcome.interrupted:
        say(f"saved step {outcome.progress.step:,} in {folder}; continue with: {shlex.join(['regard', *sys.argv[1:]])}")
        raise typer.Exit(outcome.interrupted)
    if not world.leads:
        return
    for line in outcome.result.lines() if outcome.result else []:
        print(line)
    look = f'    look: regard lens {folder} "..."' if resolved.task.name in ("translate", "reply", "write", "caption") else ""
    print(f'run: {folder}    try: regard predict {folder} "..."{look}')


@app.command(
    epilog=_examples(
        "regard evaluate runs/translate",
        "regard evaluate runs/translate data.test=new.en,new.fr decode.beam=8 --output outputs.txt",
    )
)
def evaluate(
    run: RunFolder,
    settings: Settings = None,
    device: Device = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="also write the outputs, a line each")] = None,
    as_json: Json = False,
) -> None:
    """Score a run on its test set, or on another."""
    from regard.tasks.scoring import score_run

    scored = score_run(run, settings or [], device, output)
    print(json.dumps(scored.as_dict(), indent=2) if as_json else "\n".join(scored.result.lines()))


@app.command(
    epilog=_examples(
        'regard predict runs/translate "the small cat sees the red house"',
        "regard predict runs/translate --input new.en --output new.fr",
        "cat new.en | regard predict runs/translate --set decode.beam=8 --set decode.n_best=3 --json",
    )
)
def predict(
    run: RunName,
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="without any: lines of --input or standard input")
    ] = None,
    input: Annotated[Path | None, typer.Option("--input", metavar="FILE", help="one text on each line")] = None,
    output: Annotated[Path | None, typer.Option("--output", metavar="FILE", help="a file for the results")] = None,
    setting: Choices = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Do what the run was trained for, on texts or a file.

    Results come as they are ready, one for each text in its order; an empty line gives an empty line. A text that
    begins with - goes after --.
    """
    from regard.tasks import predict as predicting

    if text and input is not None:
        raise UserError(f"both a text and --input {input} were given; give one of them.")
    predicting.predict(run, text, input, output, setting or [], device, as_json, _show)


@app.command(
    epilog=_examples(
        "regard chat runs/chat-multi",
        "regard chat runs/chat-retrieval --set data.nearest=5",
        'regard chat hf:gpt2 --before "A talk between two old friends."',
    )
)
def chat(
    run: RunName,
    you: Annotated[str, typer.Option(metavar="NAME", help="what you are called in the transcript")] = "You",
    it: Annotated[str, typer.Option(metavar="NAME", help="what the model is called")] = "Model",
    before: Annotated[str, typer.Option(metavar="TEXT", help="what stands above the transcript")] = "",
    setting: Choices = None,
    device: Device = None,
) -> None:
    """Converse with a bot or a language model in the terminal.

    A language model continues the transcript of your talk; what no longer fits what it sees is forgotten, oldest first. A bot
    that was trained on dialogues hears as many turns as it was trained with. Lines may be piped in, one turn on each.
    """
    from regard.tasks.chat import chat as converse

    converse(run, you, it, before, setting or [], device, _typed_lines(f"{you}: "), _show, _say)


@app.command(
    epilog=_examples(
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
    as_json: Json = False,
) -> None:
    """How likely a language model finds a text, or which answer.

    A line of questions is {"context": "The sky is", "options": ["blue", "a fish"], "answer": 0}; the answer may be left out.
    """
    from regard.tasks.likelihoods import score as scored

    for line in scored(run, what, device, settings or [], each=each, scale=by, as_json=as_json):
        print(line)


@app.command(
    name="import",
    epilog=_examples(
        "regard import gpt2 runs/gpt2",
        "regard import models/my-bert runs/mine",
        "regard import models/my-bert runs/vectors task.name=embed",
    ),
)
def import_(
    source: Annotated[str, typer.Argument(metavar="FOLDER|HUB_ID", help="a Hugging Face folder, or a name on its hub")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="where the run goes")],
    settings: Settings = None,
) -> None:
    """Make a run of a public checkpoint (GPT or BERT).

    GPT-1, GPT-2, BERT, RoBERTa, CamemBERT, DistilBERT and ELECTRA, with the heads that they come with.
    """
    from regard.tasks.exchange import import_public

    import_public(source, folder, _say, settings or [])


@app.command(epilog=_examples("regard export runs/gpt exported --to hf"))
def export(
    run: RunFolder,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a new folder")],
    to: Annotated[
        str, typer.Option("--to", metavar="FORMAT", help="hf, for transformers; word2vec, word2vec-binary or glove")
    ] = "hf",
) -> None:
    """Write a run as a folder that other programs open."""
    from regard.tasks.exchange import export_run

    export_run(run, folder, to, _say)


@app.command(
    epilog=_examples(
        "regard prune runs/translate runs/half --keep 0.5",
        "regard prune runs/translate runs/few --keep 0.3 --by L0 --curve curve.png",
        "regard prune runs/mine runs/half --data valid.en,valid.de --by ablation --set decode.search=greedy",
    )
)
def prune(
    run: RunFolder,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="a new folder, for the pruned run")],
    keep: Annotated[float, typer.Option(metavar="SHARE", help="of all heads")] = 0.5,
    by: Annotated[str, typer.Option(metavar="WAY", help="importance, normalised, ablation, random or L0")] = "importance",
    data: Annotated[Path | None, typer.Option(metavar="FILE", help="to measure on; by default the validation data")] = None,
    curve: Annotated[Path | None, typer.Option(metavar="FILE", help="a picture: .png, .svg, .html or .json")] = None,
    penalty: Annotated[float, typer.Option(metavar="NUMBER", help="of --by L0: for each open gate")] = 0.01,
    steps: Annotated[int, typer.Option(metavar="N", help="of --by L0: how long gates are trained")] = 300,
    setting: Choices = None,
    device: Device = None,
) -> None:
    """Remove heads: a smaller, faster run, and what it costs.

    Heads go from the least important on, one at least stays in every attention; the score is printed for every so many of them.
    """
    from regard.tasks.pruning import Wish, prune_run

    wish = Wish(keep=keep, by=by, data=data, penalty=penalty, steps=steps)
    for line in prune_run(run, out, wish, setting or [], curve, device, _say):
        print(line)


def _one_text_without_a_word(context: typer.Context, texts: list[str] | None) -> list[str] | None:
    """Attention is drawn of one text; a word is looked at in several, or in a file; a view says itself what it needs."""
    expected = (0, 1) if context.params.get("show") is not None else (1,)
    if context.params.get("word") is None and len(texts or []) not in expected:
        extra = f"one text is drawn at a time, and {texts[1]!r} is a second" if texts else "give a text to look into"
        raise typer.BadParameter(f"{extra}; --word WORD looks at a word in several.")
    return texts


@app.command(
    epilog=_examples(
        'regard lens runs/translate "the animal did not cross the street because it was too tired"',
        'regard lens runs/translate "the cat sleeps" --part encoder --out attention.html',
        'regard lens runs/translate "the cat sleeps" --show heads --out heads.png',
        'regard lens hf:bert-base-uncased --word bank "He sat on the river bank." "She put cash in the bank."',
        "regard lens runs/bert --word bank --file sentences.tsv --out bank.html",
    )
)
def lens(
    run: RunName,
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="to look into", callback=_one_text_without_a_word)
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
) -> None:
    """Draw what each written word attended to, or look otherwise.

    With --show: another view of the model and the text, or of a file of them. With --word: the distance between a word's uses,
    layer by layer; a sentence may end in a tab and the word's sense there. Several runs, RUN,RUN,..., then stand side by side.
    """
    views = {"--target": target, "--hypothesis": hypothesis, "--data": data, "--head": head, "--specials": specials}
    views |= {"--words": words or None, "--values": values or None}
    if word is not None:
        _only("is not for --word; leave one of them", {"--show": show, "--part": part, **views})
        from regard.tasks.look import look_at_word

        lines = look_at_word(run, word, text or [], file, layer, out, device, beside)
    elif show is not None:
        _only("is only for --word; give --word WORD, or leave it", {"--file": file, "--beside": beside})
        from regard.tasks.show import Asked
        from regard.tasks.shows import show as shown

        asked = Asked(
            run=run, device=device, text=text[0] if text else None, target=target, hypothesis=hypothesis, data=data, layer=layer,
            head=head, part=part, words=words, values=values, specials=specials,
        )  # fmt: skip
        lines = shown(show, asked, out)
    else:
        _only("is only for --word; give --word WORD, or leave it", {"--file": file, "--layer": layer, "--beside": beside})
        _only("is only for --show; give --show VIEW, or leave it", views)
        from regard.tasks.look import look

        lines = look(run, (text or [""])[0], part, out, device)
    for line in lines:
        print(line)


def _only(told: str, options: Mapping[str, object]) -> None:
    """Options that were given where they mean nothing."""
    for option, given in options.items():
        if given is not None:
            raise UserError(f"{option}{'' if given is True else f' {given}'} {told} out.")


@app.command(epilog=_examples("regard studio runs/demo", "regard studio runs/demo runs/gpt --port 8000"))
def studio(
    run: Annotated[list[str] | None, typer.Argument(metavar="RUN", help="runs to look into; by default all in runs/")] = None,
    port: Annotated[int, typer.Option(metavar="N", help="0 is any that is free")] = 8417,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="a public one needs --key")] = "127.0.0.1",
    key: Annotated[str | None, typer.Option(metavar="KEY", help="without which nobody sees anything")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="only print the address")] = False,
    device: Device = None,
) -> None:
    """A page in your browser to look inside: heads, searches, sums.

    It runs on this machine, for this machine, and needs no network.
    """
    from regard.tasks.studio import serve

    serve(run or [], host, port, key, not no_browser, device, _say)


@app.command(
    epilog=_examples("regard explain translate-base", "regard explain gpt3-175b", "regard explain runs/translate --json")
)
def explain(
    target: Annotated[
        str,
        typer.Argument(metavar="RECIPE|RUN|SIZE", help="a recipe, a .toml file, a run, or a size such as gpt3-175b"),
    ],
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """The model as a tree: shapes, parameters, files."""
    from regard.tasks.listing import explain_rows, explain_tree

    print(json.dumps(explain_rows(target, settings or []), indent=2) if as_json else explain_tree(target, settings or []))


@app.command(epilog=_examples("regard bench attention", "regard bench lra listops seeds=1", "regard bench --render"))
def bench(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="what to measure; by default, all are listed")] = None,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[ARGUMENT]...", help="for a subject that takes any")] = None,
    render: Annotated[bool, typer.Option("--render", help="write docs/performance.md from all results")] = False,
) -> None:
    """Speed against peers: list, measure, document.

    Measuring replaces what was recorded for this subject in benchmarks/results.
    """
    from regard.tasks.bench import listing, measure, write_document

    for line in measure(name, arguments or []) if name else [] if render else listing():
        print(line)
    for path in write_document() if render else []:
        print(f"written: {path}")


@app.command()
def doctor(as_json: Json = False) -> None:
    """Versions, devices, disk: what a bug report needs."""
    from regard.tasks.doctor import examine, report

    findings = examine()
    print(json.dumps(findings, indent=2) if as_json else report(findings))


def _typed_lines(prompt: str) -> Iterator[str]:
    """What a person types, asked for by name; what a program pipes, as it comes."""
    while True:
        try:
            yield input(prompt if sys.stdin.isatty() else "")
        except EOFError:
            return


def _show(piece: str) -> None:
    print(piece, end="", flush=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _say_nothing(line: str) -> None:
    """Of several processes that train together one speaks."""


def _refuse(sentence: str) -> int:
    _say(f"regard: {sentence}")
    return 2


def _where_to_look(error: typer.BadParameter) -> str:
    told = error.format_message()
    return f"{told}{'' if told.endswith(('.', '?')) else '.'} See '{error.ctx.command_path if error.ctx else 'regard'} --help'."


def main(arguments: list[str] | None = None) -> None:
    """Run a command; mistakes end as one sentence and exit code 2."""
    try:
        code: Any = app(args=arguments or sys.argv[1:] or ["--help"], standalone_mode=False, prog_name="regard")
        sys.stdout.flush()
    except UserError as error:
        code = _refuse(str(error))
    except Mistyped as error:
        code = _refuse(_where_to_look(error))
    except (KeyboardInterrupt, typer.Abort):
        _say("regard: stopped.")
        code = 130
    except BrokenPipeError:  # the reader of our output left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:  # a disk that is full, a folder that went away
        what = error.filename or "the output"
        code = _refuse(f"{what} cannot be read or written: {error.strerror}. Mend that and run the same command again.")
    sys.exit(code if isinstance(code, int) else 0)

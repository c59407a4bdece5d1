"""Fine-tuning MiniLM-L6 on SST-2 for an epoch, 32 texts a batch: `regard train` against transformers' Trainer.

    REGARD_MINILM=FOLDER REGARD_DATA=FOLDER regard bench finetune [scores] [1 2 3]

Four trainings take turns, a hundred steps each, until the clock has seen enough; that is recorded. Then all are trained to the
end of the epoch, side by side, with one seed after the other, and their scores are recorded as they come: these alone, if that
is what is asked for, and of these seeds, if any are named. On a CPU a few hundred texts show that it runs.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.measure import RESULTS, Bar, Row, Table, alternate, row, versions, write
from benchmarks.peers import trainer
from benchmarks.peers.relay import Relay
from benchmarks.peers.trainer import BATCH, Labelled
from benchmarks.real import DATA, MINILM, folder, hold_out
from benchmarks.steps import CUDA
from benchmarks.trained import Trained, trained_in_turns
from regard.core.errors import UserError
from regard.data.batching.pairs import cuts
from regard.runs.init_recipe import load_recipe_to_train
from regard.tasks.classification import prepare
from regard.tasks.classification.prepare import Labelled as Prepared

RECIPE = "finetune-classify"
HELD_OUT = 2_000 if CUDA else 100  # of the training texts, for validation
WARM_UP, PART = (200 * BATCH, 100 * BATCH) if CUDA else (2 * BATCH, 2 * BATCH)  # texts
SMALL = 10 * BATCH  # texts, on a CPU
SEEDS = (1, 2, 3) if CUDA else (1,)
COLUMNS, MISSING = ["", *map(str, SEEDS), "mean"], "-"
Settings = list[str]
Seconds = dict[str, list[float]]  # of every part, by contender
Scores = dict[str, dict[int, float]]  # accuracies, by contender and seed


def settings(weights: Path, into: Path) -> Settings:
    """As the recipe has it, for one epoch, with what a GPU can do for it."""
    train, valid = hold_out(folder(DATA, "sst2", "train.tsv.gz"), HELD_OUT, into, header=True)
    test = folder(DATA, "sst2", "dev.tsv.gz")
    found = [f"task.init_from={weights}", f"data.train={train}", f"data.valid={valid}", f"data.test={test}"]
    found += ["data.columns=sentence|content,label", "train.epochs=1"]
    return found + (["train.compile=true"] if CUDA else ["train.precision=fp32", f"data.limit={SMALL}"])


def budget(lengths: np.ndarray, texts: int) -> int:
    """Tokens a batch for which batches hold so many texts on the average: those of short ones more, those of long ones fewer."""
    ordered, low, high = np.sort(lengths), int(lengths.max()), int(lengths.max()) * texts
    while low < high:
        middle = (low + high) // 2
        if len(cuts(ordered, middle)) > -(-len(lengths) // texts):
            low = middle + 1
        else:
            high = middle
    return low


def read(prepared: Prepared, split: str) -> Labelled:
    examples = prepare.read_labelled_split(prepared.recipe, split)
    return [example.text for example in examples], prepared.labels.numbers(examples, split).tolist()


@torch.no_grad()
def _must_agree(prepared: Prepared, weights: Path, texts: list[str]) -> None:
    """The same ids, and with one head the same scores."""
    ids, _, _ = prepared.reader.encode([(text,) for text in texts], texts)
    tokenizer = trainer.AutoTokenizer.from_pretrained(weights)
    if (given := tokenizer(texts)["input_ids"]) != [ids[n].tolist() for n in range(len(ids))]:
        raise SystemExit("the systems disagree on the ids of a text")
    model, peer = prepared.model().eval(), trainer.model(str(weights), len(prepared.labels)).eval()
    peer.classifier.load_state_dict(model.classes.project.state_dict())  # type: ignore[union-attr]
    for row_ in given:
        ids_BL = torch.tensor([row_])
        difference = (model(ids_BL, torch.tensor([len(row_)])) - peer(ids_BL).logits).abs().max().item()
        if not difference < 1e-4:
            raise SystemExit(f"the systems disagree by {difference}")


def contenders(settings: Settings, prepared: Prepared, seed: int) -> dict[str, Relay]:
    weights, data = prepared.recipe.task.init_from, (read(prepared, "train"), read(prepared, "test"))
    config = replace(prepared.recipe.train, seed=seed)
    ways = {"Trainer, best, compiled": trainer.COMPILED, "Trainer, best": trainer.BEST, "Trainer": trainer.AS_IT_COMES}
    if not CUDA:
        del ways["Trainer, best, compiled"]
    ours = Relay(PART, trained_in_turns, RECIPE, [*settings, f"train.seed={seed}"])
    return {"regard": ours} | {name: Relay(PART, trainer.finetune, weights, way, config, *data) for name, way in ways.items()}


def race(settings: Settings, prepared: Prepared, rounds: int) -> Seconds:
    with ExitStack() as open_:
        relays = {name: open_.enter_context(each) for name, each in contenders(settings, prepared, 1).items()}
        for step in (lambda relay: relay.begin(WARM_UP), Relay.halted):  # side by side: they start, compile and warm up
            for relay in relays.values():
                step(relay)
        return alternate(relays, rounds, warm_up=0)


def scores(settings: Settings, prepared: Prepared, seed: int) -> Iterator[tuple[str, float]]:
    """The accuracy of every contender."""
    with ExitStack() as open_:
        relays = {name: open_.enter_context(each) for name, each in contenders(settings, prepared, seed).items()}
        for relay in relays.values():
            relay.begin()
        for name, relay in relays.items():
            one = relay.finished()
            accuracy = one.scores["accuracy"] if isinstance(one, Trained) else one
            print(f"{name}, seed {seed}: {accuracy:.2%}", flush=True)
            yield name, accuracy


def main(arguments: Sequence[str] = (), rounds: int = 8 if CUDA else 3) -> None:
    seeds = [int(argument) for argument in arguments if argument in map(str, SEEDS)] or SEEDS
    if strange := [argument for argument in arguments if argument not in ("scores", *map(str, SEEDS))]:
        raise UserError(f"{strange[0]!r} is not known here; there are: scores, {', '.join(map(str, SEEDS))}.")
    weights = folder(MINILM)
    with tempfile.TemporaryDirectory() as into:
        given = settings(weights, Path(into))
        prepared = prepare.prepare(load_recipe_to_train(RECIPE, given), None, lambda line: None)
        _must_agree(prepared, weights, read(prepared, "test")[0][:64])
        given.append(f"train.tokens_per_batch={budget(prepared.train.ids.lengths, BATCH)}")
        texts = len(prepared.train)
        if not arguments:
            record(texts, [timed(race(given, prepared, rounds))], {})
        for seed in seeds:
            for name, accuracy in scores(given, prepared, seed):
                rows, found = recorded()  # anew, as another process may measure another seed
                found.setdefault(name, {})[seed] = accuracy
                record(texts, rows, found)


def recorded() -> tuple[list[Row], Scores]:
    path = RESULTS / f"finetune.{'cuda' if CUDA else 'cpu'}.json"
    if not path.is_file():
        return [], {}
    found = json.loads(path.read_text("utf-8"))
    scored = [cells for table in found["tables"] if table["columns"] == COLUMNS for cells in table["rows"]]
    return found["rows"], {
        name: {seed: float(cell.rstrip("%")) / 100 for seed, cell in zip(SEEDS, cells) if cell != MISSING}
        for name, *cells in scored
    }


def timed(seconds: Seconds) -> Row:
    bar: Bar = {"floor": 1.5, "goal": 3.0}
    bars = {f"regard / {name}": bar for name in seconds if name.startswith("Trainer, best")} if CUDA else {}
    return row("after warm-up", "texts/s", PART, seconds, bars=bars)


def record(texts: int, rows: Sequence[Row], found: Scores) -> None:
    cells = [[name, *_told(by_seed)] for name, by_seed in found.items()]
    title = "Accuracy on SST-2 dev, 872 sentences, after the epoch, by seed"
    scored: list[Table] = [{"title": title, "columns": COLUMNS, "rows": cells}]
    write(
        "finetune",
        title="Fine-tuning MiniLM-L6 on SST-2",
        setting=f"{texts:,} texts, one epoch, {BATCH} a batch (ours on the average: it fills them by tokens), the "
        f"same schedule. Best: {'bf16, tf32, four loading processes, ' if CUDA else ''}fused AdamW, like lengths together, "
        "padding to multiples of 8, no dropout inside attention. Ours has none either, and packs texts of all lengths. Each in a "
        "process of its own.",
        rows=list(rows),
        versions=versions("transformers", "accelerate"),
        tables=scored if cells else [],
    )


def _told(by_seed: Mapping[int, float]) -> list[str]:
    return [
        *(f"{by_seed[seed]:.2%}" if seed in by_seed else MISSING for seed in SEEDS),
        f"{statistics.mean(by_seed.values()):.2%}",
    ]


if __name__ == "__main__":
    main(sys.argv[1:] if Path(sys.argv[0]).stem == "finetune" else ())

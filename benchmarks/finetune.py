"""Fine-tuning MiniLM-L6 on SST-2 for an epoch, 32 texts a batch: `regard train` against transformers' Trainer.

    REGARD_MINILM=FOLDER REGARD_DATA=FOLDER regard bench finetune

Four trainings take turns, a hundred steps each, until the clock has seen enough; that is recorded. Then all go on to the end of
the epoch, and their scores are recorded too. On a CPU a few hundred texts show that it runs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch

from benchmarks.measure import Bar, Table, alternate, row, versions, write
from benchmarks.peers import trainer
from benchmarks.peers.relay import Relay
from benchmarks.peers.trainer import BATCH, Labelled
from benchmarks.real import DATA, MINILM, folder, hold_out
from benchmarks.steps import CUDA
from benchmarks.trained import Trained, trained_in_turns
from regard.data.batches import cuts
from regard.tasks import classify
from regard.tasks.classify import Labelled as Prepared
from regard.tasks.start_recipe import load_recipe_to_train

RECIPE = "finetune-classify"
HELD_OUT = 2_000 if CUDA else 100  # of the training texts, for validation
WARM_UP, PART = (200 * BATCH, 100 * BATCH) if CUDA else (2 * BATCH, 2 * BATCH)  # texts
SMALL = 10 * BATCH  # texts, on a CPU
Settings = list[str]
Seconds = dict[str, list[float]]  # of every part, by contender


def settings(weights: Path, into: Path) -> Settings:
    """As the recipe has it, for one epoch, with what a GPU can do for it."""
    train, valid = hold_out(folder(DATA, "sst2", "train.tsv.gz"), HELD_OUT, into, header=True)
    test = folder(DATA, "sst2", "dev.tsv.gz")
    found = [f"task.start={weights}", f"data.train={train}", f"data.valid={valid}", f"data.test={test}"]
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
    examples = classify.read_split(prepared.recipe, split)
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


def race(
    settings: Settings, prepared: Prepared, rounds: int, timed: Callable[[Seconds], None]
) -> tuple[Seconds, dict[str, float]]:
    """Seconds, which are told as soon as they are known, and accuracies in the end."""
    weights, config, data = prepared.recipe.task.start, prepared.recipe.train, (read(prepared, "train"), read(prepared, "test"))
    ways = {"Trainer, best, compiled": trainer.COMPILED, "Trainer, best": trainer.BEST, "Trainer": trainer.AS_IT_COMES}
    if not CUDA:
        del ways["Trainer, best, compiled"]
    with ExitStack() as open_:
        relays = {"regard": open_.enter_context(Relay(PART, trained_in_turns, RECIPE, settings))}
        for name, way in ways.items():
            relays[name] = open_.enter_context(Relay(PART, trainer.finetune, weights, way, config, *data))
        for step in (lambda relay: relay.begin(WARM_UP), Relay.halted):  # side by side: they start, compile and warm up
            for relay in relays.values():
                step(relay)
        seconds = alternate(relays, rounds, warm_up=0)
        timed(seconds)
        for relay in relays.values():
            relay.begin()
        found = {name: relay.finished() for name, relay in relays.items()}
    return seconds, {name: each.scores["accuracy"] if isinstance(each, Trained) else each for name, each in found.items()}


def main(rounds: int = 8 if CUDA else 3) -> None:
    weights = folder(MINILM)
    with tempfile.TemporaryDirectory() as into:
        given = settings(weights, Path(into))
        prepared = classify.prepare(load_recipe_to_train(RECIPE, given), None, lambda line: None)
        _must_agree(prepared, weights, read(prepared, "test")[0][:64])
        given.append(f"train.tokens_per_batch={budget(prepared.train.ids.lengths, BATCH)}")
        seconds, accuracies = race(given, prepared, rounds, lambda seconds: record(len(prepared.train), seconds, {}))
    record(len(prepared.train), seconds, accuracies)


def record(texts: int, seconds: Seconds, accuracies: dict[str, float]) -> None:
    bar: Bar = {"floor": 1.5, "goal": 3.0}
    bars = {f"regard / {name}": bar for name in seconds if name.startswith("Trainer, best")} if CUDA else {}
    scored = [[name, f"{accuracy:.2%}"] for name, accuracy in accuracies.items()]
    write(
        "finetune",
        title="Fine-tuning MiniLM-L6 on SST-2",
        setting=f"{texts:,} texts, one epoch, {BATCH} a batch (ours on the average: it fills them by tokens), the "
        f"same schedule. Best: {'bf16, tf32, four loading processes, ' if CUDA else ''}fused AdamW, like lengths together, "
        "padding to multiples of 8, no dropout inside attention, as ours. Each in a process of its own.",
        rows=[row("after warm-up", "texts/s", PART, seconds, bars=bars)],
        versions=versions("transformers", "accelerate"),
        tables=[Table(title="Accuracy on SST-2 dev after the epoch", columns=["", "accuracy"], rows=scored)] if scored else [],
    )


if __name__ == "__main__":
    main()

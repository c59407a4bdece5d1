"""One summariser of e-mails: pre-trained on text by a noise, or not at all, then trained on e-mails with their subjects.

What `aeslc` trains side by side, each in a process of its own. A run that was cut off goes on where it was, and one that is done
is not trained again.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.denoising import NOISES, cost, quiet
from benchmarks.steps import CUDA, DEVICE
from regard.commands.train import Outcome, train_prepared, train_run
from regard.data.sources.text import documents
from regard.runs.init_recipe import load_recipe_to_train
from regard.runs.recipe import Recipe, load_recipe
from regard.tasks.registry import TASKS
from regard.tasks.seq2seq_denoising.prepare import prepare

SPLITS = ("train", "dev", "test")
WINDOW, SUBJECT = 256, 32  # tokens of a passage or an e-mail; of a subject
REPORTED = ("rouge_1", "rouge_2", "rouge_l")


class Size(NamedTuple):
    """How large the models are, and how long they are trained."""

    width: int
    layers: int
    vocabulary: int
    pretrain: int  # steps of infilling, or what costs as much
    pretrain_tokens: int  # of a batch
    tune: int  # steps of fine-tuning
    scratch: int  # steps without pre-training
    tune_tokens: int
    dropout: float = 0.2


SIZES = {
    "base": Size(512, 4, 8000, 2400, 16_384, 1600, 2400, 16_384),
    "order": Size(256, 3, 8000, 600, 16_384, 800, 800, 16_384),
    "tiny": Size(32, 1, 600, 4, 512, 4, 4, 512),
}


class Job(NamedTuple):
    """A training to be done. Without `noise` there is no pre-training; `scored` is the split that is scored in the end."""

    noise: str
    seed: int
    size: str
    scored: str
    folder: Path
    pretrain: int = 0  # steps of infilling, or what costs as much; 0: as the size has it

    @property
    def name(self) -> str:
        steps = f"-{self.pretrain}" if self.pretrain and self.noise else ""
        return f"{self.size}-{self.noise or 'scratch'}{steps}-{self.seed}"


def write_texts(data: Path, into: Path, size: str) -> None:
    """Write e-mails with their subjects, all text without subjects, and a vocabulary of that text; what is there stays."""
    into.mkdir(parents=True, exist_ok=True)
    tiny = SIZES[size] is SIZES["tiny"]
    for split in SPLITS:
        rows = list(_records(data / "aeslc" / f"{split}.jsonl.gz"))[: 40 if tiny else None]
        lines = (json.dumps({"input": row["text"], "target": row["summary"]}) for row in rows if row["summary"].strip())
        _write(into / f"{split}.jsonl", lines)
    texts = into / "texts.jsonl"
    if not texts.exists():
        _write(texts, (json.dumps({"text": text}) for text in _texts(data, tiny)))
    job = Job("span_corruption", 1, size, "dev", into)
    if not (vocabulary := _vocabulary(job)).exists():
        learned = prepare(load_recipe("t5", pretrain_settings(job)), None, quiet)
        vocabulary.mkdir()
        learned.tokenizer.save(vocabulary / "tokenizer.json")


def _write(path: Path, lines: Iterator[str]) -> None:
    whole = path.with_suffix(".part")
    whole.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    whole.replace(path)


def _records(path: Path) -> Iterator[dict[str, Any]]:
    import gzip

    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _texts(data: Path, tiny: bool) -> Iterator[str]:
    """Yield the e-mails of the training data, reviews, and articles of wikitext by paragraphs, as far as they are there."""
    emails = [row["text"] for row in _records(data / "aeslc" / "train.jsonl.gz")]
    yield from emails[:200] if tiny else emails
    for path in [] if tiny else sorted((data / "imdb_full").glob("*.jsonl.gz")):
        yield from (row["text"] for row in _records(path))
    wikitext = data / "wikitext-2" / "train.txt.gz"
    if wikitext.exists() and not tiny:
        for document in documents((str(wikitext),)):
            yield from (line.strip() for line in document.split("\n") if len(line) > 100)


def model_settings(size: Size, dropout: float) -> list[str]:
    """Return the settings of a Transformer of today's parts, whose sequences can be packed."""
    shape = dict(width=size.width, layers=size.layers, heads=max(1, size.width // 64), head_width=min(64, size.width))
    parts = dict(family="transformer", position="rotary", norm="rms", norm_placement="pre", bias="false", dropout=dropout)
    parts |= dict(feedforward=2 * size.width, feedforward_kind="gated", activation="silu")
    return [f"model.{key}={value}" for key, value in (shape | parts).items()]


def pretrain_settings(job: Job, steps: int = 1) -> list[str]:
    size = SIZES[job.size]
    found = [f"data.train={job.folder / 'texts.jsonl'}", "data.valid=", "data.test=", "data.valid_fraction=0.01"]
    found += [f"data.window={WINDOW}", f"text.size={size.vocabulary}", *model_settings(size, 0.0)]
    found += [f"objective.noise={job.noise}", *NOISES[job.noise], f"train.seed={job.seed}", f"train.steps={steps}"]
    found += [f"train.tokens_per_batch={size.pretrain_tokens}", "train.learning_rate=2e-3", "train.warmup=0.05", "train.best=nll"]
    return [*found, *_rare(steps), f"train.precision={'bf16' if CUDA else 'fp32'}"]


def _rare(steps: int, times: int = 1) -> list[str]:
    every = max(1, steps // times)
    return [f"train.validate_every={every}", f"train.checkpoint_every={every}", "train.keep=1"]


def steps_of(job: Job) -> int:
    """Return the steps that cost as many operations as those of infilling."""
    costs = []
    for noise in ("infilling", job.noise):
        other = job._replace(noise=noise)
        costs.append(cost(prepare(load_recipe("t5", pretrain_settings(other)), _vocabulary(job), quiet)))
    return max(1, round((job.pretrain or SIZES[job.size].pretrain) * costs[0] / costs[1]))


def _vocabulary(job: Job) -> Path:
    """Return the folder of the vocabulary that all runs of a size have."""
    return job.folder / f"vocabulary-{SIZES[job.size].vocabulary}"


def _trained(recipe: Recipe, run: Path, job: Job) -> Outcome:
    """Train a run from its beginning, with the vocabulary of all runs."""
    prepared = TASKS[recipe.task.name].prepare(recipe, _vocabulary(job), quiet)
    return train_prepared(prepared, run, DEVICE, quiet)


def tune_settings(job: Job, start: Path | None) -> list[str]:
    size, folder = SIZES[job.size], job.folder
    steps = size.tune if start else size.scratch
    found = [f"data.train={folder / 'train.jsonl'}", f"data.valid={folder / 'dev.jsonl'}"]
    found += [f"data.test={folder / f'{job.scored}.jsonl'}", "data.prefixes=", f"data.maximum_input={WINDOW}"]
    found += [f"data.maximum_target={SUBJECT}", f"train.seed={job.seed}", f"train.steps={steps}", "train.best=rouge_l"]
    found += [f"train.tokens_per_batch={size.tune_tokens}", f"train.learning_rate={'1e-3' if start else '2e-3'}"]
    found += ["train.warmup=0.1", "train.weight_decay=0.05", "objective.smoothing=0.1", "decode.beam=4", *_rare(steps, 4)]
    found += ["decode.batch_tokens=16384"]
    found += [f"train.precision={'bf16' if CUDA else 'fp32'}", f"model.dropout={size.dropout}"]
    if start:
        return [*found, f"task.init_from={start}"]
    return [*found, f"text.size={size.vocabulary}", *model_settings(size, size.dropout)]


def done(job: Job) -> dict[str, Any]:
    """Do a job and return what came of it."""
    torch.set_num_threads(1 if CUDA else torch.get_num_threads())
    kept = job.folder / f"{job.name}-{job.scored}.json"
    if kept.exists():
        before: dict[str, Any] = json.loads(kept.read_text("utf-8"))
        return before
    found: dict[str, Any] = {"noise": job.noise, "seed": job.seed, "steps": 0, "pretraining_seconds": 0.0}
    start = None
    if job.noise:
        start, steps = job.folder / f"{job.name}-text", steps_of(job)
        outcome = _trained(load_recipe("t5", pretrain_settings(job, steps)), start, job)
        found |= {"steps": steps, "pretraining_seconds": outcome.progress.seconds}
    run = job.folder / f"{job.name}-subjects"
    recipe = load_recipe_to_train("summarize", tune_settings(job, start), run)
    outcome = train_run(recipe, run, DEVICE, quiet) if start else _trained(recipe, run, job)
    assert outcome.result is not None
    scores = outcome.result.as_dict()
    logged = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    found |= {name: scores[name] for name in REPORTED}
    found |= {"valid_rouge_l": outcome.progress.best, "seconds": outcome.progress.seconds}
    found["valid_nll"] = min(line["valid_nll"] for line in logged if "valid_nll" in line)
    found["parameters"] = outcome.prepared.example()[0].parameters
    kept.write_text(json.dumps(found), "utf-8")
    return found


def mean(values: list[float], digits: int = 2) -> str:
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"

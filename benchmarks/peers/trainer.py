"""transformers' Trainer, as it comes and at its best documented settings, on the texts and with the weights that ours has."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import accelerate  # type: ignore[import-not-found]  # noqa: F401  # or Trainer says only when it is made that it is missing
import numpy as np
import transformers
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments

from benchmarks.peers.relay import Baton
from benchmarks.steps import CUDA
from regard.training.config import TrainConfig

BATCH = 32
Labelled = tuple[list[str], list[int]]  # texts, and the number of each one's label


@dataclass(frozen=True)
class Way:
    """What of Trainer's settings is not what it comes with, dropout inside attention included."""

    arguments: dict[str, Any]
    multiple: int | None = None  # lengths are padded to one of this
    attention_dropout: float | None = None


# Of its performance guides: half precision, tensor cores for the rest, like lengths together, padding to multiples of 8, loaders
# in processes of their own; and no look at every loss, which makes the host wait for the device.
_BEST: dict[str, Any] = {
    "optim": "adamw_torch_fused",
    "train_sampling_strategy": "group_by_length",
    "logging_nan_inf_filter": False,
    "dataloader_num_workers": 4 if CUDA else 0,
    **({"bf16": True, "tf32": True, "dataloader_persistent_workers": True} if CUDA else {}),
}
AS_IT_COMES = Way({})
BEST = Way(_BEST, multiple=8, attention_dropout=0.0)
COMPILED = Way(_BEST | {"torch_compile": True}, multiple=8, attention_dropout=0.0)


class Halting(transformers.TrainerCallback):
    def __init__(self, baton: Baton) -> None:
        self.baton = baton

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        self.baton.did(args.train_batch_size)


def finetune(baton: Baton, weights: str, way: Way, config: TrainConfig, train: Labelled, dev: Labelled) -> float:
    """One epoch; the accuracy on `dev`."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(weights)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model(weights, len(set(train[1])), way.attention_dropout),
            TrainingArguments(**_common(config, Path(folder)), **way.arguments),
            train_dataset=_encoded(tokenizer, train),
            data_collator=DataCollatorWithPadding(tokenizer, pad_to_multiple_of=way.multiple),
            processing_class=tokenizer,
            callbacks=[Halting(baton)],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        found = trainer.predict(_encoded(tokenizer, dev))  # in an order of its own, where like lengths come together
    return float((np.asarray(found.predictions).argmax(-1) == found.label_ids).mean())


def model(weights: str, labels: int, attention_dropout: float | None = None) -> nn.Module:
    """In float32, whatever the folder is stored in; a head that it does not have is drawn."""
    changed = {} if attention_dropout is None else {"attention_probs_dropout_prob": attention_dropout}
    found: nn.Module = AutoModelForSequenceClassification.from_pretrained(weights, num_labels=labels, dtype="float32", **changed)
    return found


def _common(config: TrainConfig, folder: Path) -> dict[str, Any]:
    """What ours is trained with too. Nothing is saved, nothing scored on the way."""
    return {
        "output_dir": str(folder),
        "per_device_train_batch_size": BATCH,
        "per_device_eval_batch_size": 128,
        "num_train_epochs": 1,
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": config.schedule,
        "warmup_steps": config.warmup,
        "weight_decay": config.weight_decay,
        "adam_beta1": config.beta1,
        "adam_beta2": config.beta2,
        "adam_epsilon": config.epsilon,
        "max_grad_norm": config.clip,
        "seed": config.seed,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": not CUDA,
    }


def _encoded(tokenizer: Any, data: Labelled) -> Any:
    """A list, which is read faster than a table of `datasets`."""
    texts, labels = data
    columns = tokenizer(texts, truncation=True)
    return [{**{key: column[n] for key, column in columns.items()}, "label": label} for n, label in enumerate(labels)]

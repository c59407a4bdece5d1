"""Classifying sentences of natural lengths on a CPU, a MiniLM: ours against transformers' pipeline, a careful loop, ONNX Runtime.

    REGARD_MINILM=FOLDER REGARD_DATA=FOLDER regard bench classify

From text to probabilities, one folder in transformers' format for all. Without the two variables: random weights of that size,
and random words in texts as long as those of SST-2.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import models, pre_tokenizers, processors

from benchmarks.measure import Bar, Row, alternate, row, versions, write
from benchmarks.peers import onnx_runtime
from benchmarks.peers.careful import Careful
from benchmarks.real import DATA, MINILM, folder
from benchmarks.steps import CUDA
from regard.data.sources.labelled import read_labelled
from regard.tasks.registry import open_run

BATCH, SINGLE = 32, 100  # texts a batch for those who are told; texts asked one by one
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SIZE: dict[str, Any] = {"vocab_size": 30_522, "hidden_size": 384, "intermediate_size": 1536}
SIZE |= {"num_hidden_layers": 6, "num_attention_heads": 12}
# Tokens of the sentences of SST-2's dev set, [CLS] and [SEP] counted: every 22nd by length.
SHORT = [7, 9, 10, 12, 12, 13, 14, 15, 16, 17, 18, 18, 19, 20, 20, 21, 22, 23, 24, 24]
LONG = [25, 26, 26, 27, 28, 29, 29, 30, 31, 32, 33, 34, 35, 36, 38, 40, 41, 44, 47, 53]
TEXTS = 872
Classify = Callable[[Sequence[str], int], np.ndarray]  # texts, and how many may be taken together, to probabilities


def real() -> bool:
    return bool(os.environ.get(MINILM) and os.environ.get(DATA))


def texts() -> list[str]:
    random = np.random.default_rng(0)
    if real():
        found = read_labelled((str(folder(DATA, "sst2", "dev.tsv.gz")),), ("content", "label"))
        return [found[n].text for n in random.permutation(len(found))]
    words = SIZE["vocab_size"] - len(SPECIALS)
    return [" ".join(f"w{n}" for n in random.integers(0, words, length - 2)) for length in random.choice(SHORT + LONG, TEXTS)]


def save(into: Path) -> None:
    """A classifier as transformers has it, whose head was drawn so that it is sure of some texts and not of others."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    tokenizer: transformers.PreTrainedTokenizerBase
    if real():
        weights = folder(MINILM)
        model = transformers.BertForSequenceClassification.from_pretrained(weights, num_labels=2, dtype="float32")
        tokenizer = transformers.AutoTokenizer.from_pretrained(weights)
    else:
        model = transformers.BertForSequenceClassification(transformers.BertConfig(**SIZE))
        tokenizer = _words()
    torch.nn.init.normal_(model.classifier.weight, std=0.5)
    model.save_pretrained(into)
    tokenizer.save_pretrained(into)


def _words() -> transformers.PreTrainedTokenizerBase:
    """A piece for every word."""
    names = [*SPECIALS, *(f"w{n}" for n in range(SIZE["vocab_size"] - len(SPECIALS)))]
    raw = tokenizers.Tokenizer(models.WordLevel({name: n for n, name in enumerate(names)}, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    roles = {f"{name.strip('[]').lower()}_token": name for name in SPECIALS}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, model_max_length=512, **roles)


def ours(labeller: Any, texts: Sequence[str], batch: int) -> np.ndarray:
    """Many at once are cut into batches by itself, so many tokens each; one at a time is asked so."""
    if batch == 1:
        return np.array([[*labeller.classify([text])[0].probabilities.values()] for text in texts])
    return np.array([[*answer.probabilities.values()] for answer in labeller.classify(texts)])


def contenders(saved: Path) -> dict[str, Classify]:
    model = transformers.BertForSequenceClassification.from_pretrained(saved).eval()
    pipeline: Any = transformers.pipeline("text-classification", str(saved), top_k=None, device="cpu")

    @torch.inference_mode()
    def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        found: np.ndarray = model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask)).logits.numpy()
        return found

    def piped(texts: Sequence[str], batch: int) -> np.ndarray:
        found = [pipeline([text])[0] for text in texts] if batch == 1 else pipeline(list(texts), batch_size=batch)
        return np.array([[one["score"] for one in sorted(row, key=lambda one: one["label"])] for row in found])

    kinds = {"regard": "float32", "regard bf16": "bfloat16", "regard int8": "int8"}
    systems: dict[str, Classify] = {
        name: partial(ours, open_run(saved, "cpu", [f"decode.weights={kind}"])) for name, kind in kinds.items()
    }
    systems |= {"pipeline": piped, "careful loop": Careful(saved, run)}
    if onnx_runtime.ready():
        abroad = onnx_runtime.classifier(saved)
        systems["ONNX Runtime"] = lambda texts, batch: np.array(abroad.ask("classify", list(texts), batch))
    return systems


def _must_agree(systems: dict[str, Classify], texts: Sequence[str]) -> None:
    """To 1e-4 where weights are float32; with bf16 and int8 they lose a little."""
    expected = systems["careful loop"](texts, BATCH)
    for name, classify in systems.items():
        for batch in (BATCH, 1):
            difference = np.abs(classify(texts, batch) - expected).max()
            if not difference < (0.1 if name in ("regard bf16", "regard int8") else 1e-4):
                raise SystemExit(f"{name} disagrees by {difference:.2g}")


def race(case: str, systems: dict[str, Classify], texts: Sequence[str], batch: int, rounds: int) -> Row:
    seconds = alternate({name: partial(classify, texts, batch) for name, classify in systems.items()}, rounds, warm_up=1)
    peers = [name for name in ("pipeline", "careful loop", "ONNX Runtime") if name in systems]
    pairs = [("regard", peer) for peer in peers] + [(f"regard {kind}", "pipeline") for kind in ("bf16", "int8")]
    bars: dict[str, Bar] = {"regard / pipeline": {"floor": 1.3, "goal": 2.5}}
    if "ONNX Runtime" in systems:
        bars["regard / ONNX Runtime"] = {"floor": 1.0, "goal": 1.5}
    return row(case, "texts/s", len(texts), seconds, pairs=pairs, bars=bars)


def main(rounds: int = 7) -> None:
    if CUDA:
        raise SystemExit("this measures a CPU, and its results would bear the GPU's name; hide it with CUDA_VISIBLE_DEVICES=")
    given = texts()
    with tempfile.TemporaryDirectory() as name:
        save(Path(name))
        systems = contenders(Path(name))
        _must_agree(systems, given[:BATCH])
        rows = [race(f"{len(given)} texts", systems, given, BATCH, rounds)]
        rows += [race("one text at a time", systems, given[:SINGLE], 1, rounds)]
    what = "MiniLM-L6 with a random head, SST-2's dev sentences" if real() else "Random weights and words, natural lengths"
    write(
        "classify",
        title="Classifying sentences with a MiniLM",
        setting=f"{what}, shuffled; from text to probabilities, float32 where nothing else is said. The pipeline takes {BATCH} "
        f"at a time as they come, the careful loop and ONNX Runtime {BATCH} of like length. {onnx_runtime.remark()}",
        rows=rows,
        versions=versions("transformers") | onnx_runtime.version(),
    )


if __name__ == "__main__":
    main()

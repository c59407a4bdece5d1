"""Public folders whose settings, vocabularies or weights were made to do harm."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from regard.interop.huggingface.sentence_transformers import written_sentences
from regard.model.heads import VectorsConfig
from tests.faults.hostile_bases import (
    CPU,
    MIB,
    NO_FILES,
    TEXT,
    Cases,
    Make,
    Spoil,
    change,
    classifier_folder,
    gpt_folder,
    public,
    replace,
    write,
)
from tests.faults.mutations import ESCAPE, STRANGE, mutated_bytes, mutated_json


def config_cases(draw: Random) -> Cases:
    for label in (ESCAPE, "a\nb\tc", "\u202e", "", " ", "x" * 100_000, "\ud800"):
        yield f"id2label {label[:8]!r}", public(classifier_folder, change("config.json", id2label={"0": label, "1": "ok"}))
    for labels in (
        {"0": "a"},
        {"0": "a", "2": "b"},
        {"0": "a", "1": "a"},
        {"0": 1, "1": 2},
        [],
        5,
        {str(n): str(n) for n in range(50_000)},
    ):
        yield f"id2label {str(labels)[:30]}", public(classifier_folder, change("config.json", id2label=labels))
    whole = json.loads((gpt_folder() / "config.json").read_text())
    for key in ("n_layer", "n_head", "n_embd", "vocab_size", "n_positions", "layer_norm_epsilon", "activation_function"):
        for value in (-1, 0, 10**9, 10**30, 1e308, float("nan"), "12", None, [12]):
            if draw.random() < 0.4 or value == 10**9:
                yield f"{key}={value}", public(gpt_folder, change("config.json", **{key: value}))
    for text in (
        "[" * 100_000,
        "{" * 100_000,
        '{"a":' * 50_000,
        "9" * 100_000,
        "[1" + ",1" * 7_000_000,
        '"' + "a" * (17 * MIB),
        "",
        "\ufeff{}",
    ):
        yield f"config.json is {text[:12]!r}...", public(gpt_folder, write("config.json", text))
    yield "a key that is said twice", public(gpt_folder, write("config.json", '{"model_type": "gpt2", "model_type": "bert"}'))
    yield "a key with escapes", public(gpt_folder, change("config.json", **{ESCAPE: ESCAPE}))
    yield "very many keys", public(gpt_folder, change("config.json", **{str(n): n for n in range(100_000)}))
    for name, files in (
        ("modules.json", "modules"),
        ("1_Pooling/config.json", "pooling"),
        ("sentence_bert_config.json", "cutting"),
    ):
        for strange in draw.sample(STRANGE, 3):
            yield (
                f"{files}: {str(strange)[:20]!r}",
                public(gpt_folder, _sentences(name, strange), ["predict", "MODEL", TEXT, *CPU, "task.name=embedding"]),
            )
    while True:
        base = draw.choice([gpt_folder, classifier_folder])
        whole = json.loads((base() / "config.json").read_text())
        text = mutated_json(draw, whole, draw.randint(1, 3))
        yield "seeded", public(base, write("config.json", text))
        content = mutated_bytes(draw, (base() / "config.json").read_bytes())
        yield "seeded bytes", public(base, write("config.json", content))


def _sentences(name: str, strange: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        for path, text in written_sentences(VectorsConfig(), 16, 8).items():
            write(path, text)(folder)
        write(name, json.dumps(strange))(folder)

    return spoil


def _vocabulary_files(folder: Path) -> None:
    """vocab.json and merges.txt in place of tokenizer.json; vocab.txt where pieces are of words."""
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    if "merges" in model:
        (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
        (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    else:
        (folder / "vocab.txt").write_text("\n".join(sorted(model["vocab"], key=model["vocab"].__getitem__)) + "\n")


def vocabulary_cases(draw: Random) -> Cases:
    def spoiled(base: Callable[[], Path], name: str, spoil: Spoil) -> Make:
        def both(folder: Path) -> None:
            _vocabulary_files(folder)
            spoil(folder)

        return public(base, both)

    for base, names in ((gpt_folder, ("vocab.json", "merges.txt")), (classifier_folder, ("vocab.txt",))):
        for name in names:
            for what in ("a pipe", "/dev/zero", "a huge hole"):
                yield f"{name} is {what}", spoiled(base, name, replace(name, NO_FILES[what]))
            for content in ("", "\0" * 100, "\n" * 2_000_000, "a b c\n", ESCAPE, "\ufeff", "x" * 20_000_000, b"\xff\xfe\0"):
                yield f"{name} is {content[:6]!r}", spoiled(base, name, write(name, content))
    for name, content in (
        ("tokenizer_config.json", f'{{"do_lower_case": "{"x" * 9999}"}}'),
        ("added_tokens.json", json.dumps({ESCAPE: 7})),
        ("tokenizer_config.json", "[" * 9999),
    ):
        yield f"{name} {content[:9]}", spoiled(classifier_folder, name, write(name, content))
    while True:
        base, name = draw.choice([(gpt_folder, "vocab.json"), (gpt_folder, "merges.txt"), (classifier_folder, "vocab.txt")])
        seed = draw.randrange(2**32)
        yield f"seeded {name}", spoiled(base, name, write(name, lambda content, seed=seed: mutated_bytes(Random(seed), content)))  # type: ignore[misc]


def _tensors(deed: Callable[[dict[str, torch.Tensor]], object]) -> Spoil:
    def spoil(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        deed(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    return spoil


def _header(header: Any, data: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", (len(text) if size is None else size) % 2**64) + text + data


def weights_cases(draw: Random) -> Cases:
    words = "transformer.wte.weight"
    for value in (float("nan"), float("inf"), -float("inf")):
        yield (
            f"weights of {value}",
            public(gpt_folder, _tensors(lambda found, value=value: found[words].view(-1)[3:4].fill_(value))),
        )  # type: ignore[misc]
    yield "weights of 1e300", public(gpt_folder, _tensors(lambda found: found.update({words: found[words].double() * 1e300})))
    yield "weights of 1e38", public(gpt_folder, _tensors(lambda found: found.update({words: found[words].sign() * 1e38})))
    for kind in (torch.int64, torch.bool, torch.complex64, torch.float8_e4m3fn, torch.uint8, torch.float16, torch.bfloat16):
        yield (
            f"weights of {kind}",
            public(gpt_folder, _tensors(lambda found, kind=kind: found.update({words: found[words].to(kind)}))),
        )  # type: ignore[misc]
    for name in (ESCAPE, "x" * 100_000, "", "\n", "transformer.wte.weight\0", "__metadata__"):
        if name != "__metadata__":
            yield (
                f"a name {name[:6]!r}",
                public(gpt_folder, _tensors(lambda found, name=name: found.update({name: torch.zeros(3)}))),
            )  # type: ignore[misc]
    yield "other shapes", public(gpt_folder, _tensors(lambda found: found.update({words: found[words].T.contiguous()})))
    yield "no dimensions", public(gpt_folder, _tensors(lambda found: found.update({words: torch.tensor(1.0)})))
    yield "nothing", public(gpt_folder, _tensors(lambda found: found.clear()))
    yield "empty ones", public(gpt_folder, _tensors(lambda found: found.update({words: torch.zeros(0, 24)})))
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    for name, content in (
        ("700,000 names", _header({str(n): entry for n in range(700_000)}, bytes(4))),
        ("30,000 names", _header({str(n): entry | {"data_offsets": [4 * n, 4 * n + 4]} for n in range(30_000)}, bytes(120_000))),
        ("a header that is longer than the file", _header({}, size=2**63)),
        ("a header of -1", _header({}, size=-1)),
        ("a header of spaces", _header(b" " * 20 * MIB)),
        ("a deep header", _header(b"[" * 100_000)),
        ("a header of numbers", _header({"a": 5})),
        ("offsets that overlap", _header({"a": entry, "b": entry}, bytes(4))),
        ("offsets behind the end", _header({"a": entry | {"data_offsets": [0, 2**62]}}, bytes(4))),
        ("offsets that run back", _header({"a": entry | {"data_offsets": [4, 0]}}, bytes(4))),
        ("a shape that overflows", _header({"a": entry | {"shape": [2**62, 2**62]}}, bytes(4))),
        ("many dimensions", _header({"a": entry | {"shape": [1] * 100_000}}, bytes(4))),
        ("an unknown type", _header({"a": entry | {"dtype": ESCAPE}}, bytes(4))),
        (
            "a name twice",
            _header(
                b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
                bytes(4),
            ),
        ),
        ("metadata of 9 MB", _header({"__metadata__": {"a": "x" * 9_000_000}, "a": entry}, bytes(4))),
        ("nothing", b""),
        ("zeros", bytes(5000)),
    ):
        yield name, public(gpt_folder, write("model.safetensors", content))
    for strange in (
        {},
        {"weight_map": {}},
        {"weight_map": {"a": "../../../etc/passwd"}},
        {"weight_map": {"a": 5}},
        {"weight_map": {ESCAPE: "x" * 5000}},
        {"weight_map": {"a": "\0"}},
        {"weight_map": {str(n): "part" for n in range(100_000)}},
        [],
        {"weight_map": {words: "tokenizer.json"}},
    ):
        yield f"an index {str(strange)[:30]!r}", public(gpt_folder, _indexed(strange))
    while True:
        content = (gpt_folder() / "model.safetensors").read_bytes()
        size = 8 + struct.unpack("<Q", content[:8])[0]
        yield (
            "seeded header",
            public(gpt_folder, write("model.safetensors", mutated_bytes(draw, content[:size]) + content[size:])),
        )
        text = mutated_json(draw, json.loads(content[8:size])).encode()
        yield "seeded entries", public(gpt_folder, write("model.safetensors", _header(text, content[size:])))
        yield "seeded bytes", public(gpt_folder, write("model.safetensors", mutated_bytes(draw, content)))


def _indexed(index: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    return spoil


def folder_cases(draw: Random) -> Cases:
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        for what, deed in NO_FILES.items():
            yield f"{name} is {what}", public(gpt_folder, replace(name, deed))
    for name in ("modules.json", "added_tokens.json", "model.safetensors.index.json", "vocab.txt", "generation_config.json"):
        yield f"{name} is a pipe", public(gpt_folder, replace(name, os.mkfifo))
    for name in ("pytorch_model.bin", "x.h5"):

        def pickled(folder: Path, name: str = name) -> None:
            (folder / "model.safetensors").rename(folder / name)

        yield f"weights are {name}", public(gpt_folder, pickled)
    while True:  # files of two models in one folder

        def mixed(folder: Path, other: str = draw.choice(["config.json", "tokenizer.json", "model.safetensors"])) -> None:
            shutil.copy(classifier_folder() / other, folder / other)

        yield "seeded: of another model", public(gpt_folder, mixed)

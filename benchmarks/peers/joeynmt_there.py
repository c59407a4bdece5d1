"""Runs in JoeyNMT's environment: its model classes with the weights that `joeynmt` saved, its loss, its beam search.

python -m benchmarks.peers.joeynmt_there translate|train|train-bf16 FOLDER THREADS
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from joeynmt.batch import Batch  # type: ignore[import-not-found]
from joeynmt.decoders import RecurrentDecoder, TransformerDecoder  # type: ignore[import-not-found]
from joeynmt.embeddings import Embeddings  # type: ignore[import-not-found]
from joeynmt.encoders import RecurrentEncoder, TransformerEncoder  # type: ignore[import-not-found]
from joeynmt.model import Model  # type: ignore[import-not-found]
from joeynmt.search import search  # type: ignore[import-not-found]
from safetensors.torch import load_file, load_model
from torch import Tensor, nn

from benchmarks.peers.apart import serve
from benchmarks.steps import theirs, times
from regard.text.specials import EOS, PAD, SOS, UNK

# All that a model asks of its vocabulary; JoeyNMT's own would put <unk> first.
VOCABULARY = SimpleNamespace(
    pad_index=PAD, bos_index=SOS, eos_index=EOS, unk_index=UNK, sep_index=None, specials=[], lang_tags=[]
)


def build(folder: Path) -> nn.Module:
    settings = json.loads((folder / "model.json").read_text("utf-8"))
    recurrent = "rnn_type" in settings["encoder"]
    words, width = settings["words"], settings["decoder"]["hidden_size"]
    embed = Embeddings(embedding_dim=width, scale=True, vocab_size=words, padding_idx=PAD)
    encoder = (RecurrentEncoder if recurrent else TransformerEncoder)(**settings["encoder"])
    of_encoder = {"encoder": encoder} if recurrent else {}
    decoder = (RecurrentDecoder if recurrent else TransformerDecoder)(**settings["decoder"], vocab_size=words, **of_encoder)
    decoder.output_layer.weight = embed.lut.weight
    model = Model(encoder, decoder, embed, embed, VOCABULARY, VOCABULARY)
    model.loss_function = ("crossentropy", 0.0)
    for part in model.modules():
        if isinstance(part, nn.LayerNorm):
            part.eps = settings["norm_epsilon"]
    load_model(model, folder / "model.safetensors")  # every weight, or an error
    built: nn.Module = model.eval()
    return built


def batch_of(source_BM: Tensor, target_BL: Tensor | None = None) -> Any:
    rows = torch.arange(len(source_BM))
    lengths_B = (source_BM != PAD).sum(1)
    batch = Batch(
        source_BM, lengths_B, None, target_BL, None, rows, torch.device("cpu"), PAD, EOS, is_train=target_BL is not None
    )
    if target_BL is not None:
        batch.sort_by_src_length()  # as its training does; its recurrent encoder insists
    return batch


def loss(model: nn.Module, batch: Any) -> Tensor:
    total, *_ = model(return_type="loss", **vars(batch))
    mean: Tensor = batch.normalize(total, "tokens")
    return mean


def translating(model: nn.Module) -> dict[str, Callable[..., Any]]:
    def translate(source: list[list[int]], beam: int, tokens: int) -> list[list[int]]:
        limits = {"min_output_length": tokens, "max_output_length": tokens}
        found, _, _ = search(model, batch_of(torch.tensor(source)), beam_size=beam, beam_alpha=0.0, **limits)
        outputs: list[list[int]] = found.tolist()
        return outputs

    return {"translate": translate}


def training(model: nn.Module, folder: Path, bf16: bool) -> dict[str, Callable[..., Any]]:
    pairs = load_file(folder / "pairs.safetensors")
    batches = [batch_of(pairs[f"source.{n}"], pairs[f"target.{n}"]) for n in range(len(pairs) // 2)]
    epoch = times(theirs(model, loss, batches, compiled=False, bf16=bf16), len(batches))

    @torch.no_grad()
    def first_loss() -> float:
        return loss(model, batches[0]).item()

    return {"loss": first_loss, "epoch": epoch}


def main(task: str, name: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    model = build(Path(name))
    serve(translating(model) if task == "translate" else training(model, Path(name), bf16=task == "train-bf16"))


if __name__ == "__main__":
    main(*sys.argv[1:])

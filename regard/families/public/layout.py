"""A layout says, as data, what a public `config.json` means in our settings and what its tensors are called here.

Of each key of the config it says one of four things: it is a number of ours, it is a choice of ours under another name, it can
have only the values that we compute, or it changes nothing that is computed. A key that is in no table may mean anything.
Of each tensor it says where ours is found, and its shape in the letters of `sizes`: V vocabulary, P positions, D width,
F feed-forward width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.families.gpt import GPTConfig

Settings = Mapping[str, Any]  # ours, without `model.`


@dataclass(frozen=True)
class Number:
    """A setting of ours. Where the key is missing, transformers takes the default; None leaves it to what is implied."""

    setting: str
    default: float | None
    whole: bool = True


@dataclass(frozen=True)
class Choice:
    """A setting of ours; of their names for the same, the first is the one we write."""

    setting: str
    names: Mapping[str, str]  # theirs -> ours
    default: str


@dataclass(frozen=True)
class Only:
    """No setting of ours: other values would ask for mathematics that we do not have."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Ignored:
    """Says something about training, generation, other heads or bookkeeping; the same is computed whatever its value."""


Meaning = Number | Choice | Only | Ignored


@dataclass(frozen=True)
class Entry:
    """One tensor of ours and where it is found: in one of theirs, or in several that we keep below each other in one matrix."""

    ours: str
    theirs: tuple[str, ...]
    shape: tuple[str, ...]  # of ours
    transposed: bool = False  # theirs is stored input by output
    tied: str = ""  # ours of which this is another name: theirs may leave it out, or repeat it

    def within(self, ours: str, theirs: str) -> Entry:
        return replace(self, ours=f"{ours}.{self.ours}", theirs=tuple(f"{theirs}.{name}" for name in self.theirs))


@dataclass(frozen=True)
class Layout:
    model_type: str
    architecture: str  # the class of transformers that opens it with a head for words
    config: type[GPTConfig]
    keys: Mapping[str, Meaning]
    implied: Callable[[Settings], Settings]  # what no key says, from what the keys say
    prefix: str  # of the body's tensors, where a head is stored beside them; without heads it may be missing
    whole: tuple[Entry, ...]
    blocks: tuple[str, str]  # where they lie, ours and theirs
    block: tuple[Entry, ...]
    buffers: tuple[str, ...]  # ends of names of tensors that are not learned

    def entries(self, layers: int) -> Iterator[Entry]:
        yield from self.whole
        ours, theirs = self.blocks
        for n in range(layers):
            yield from (entry.within(f"{ours}.{n}", f"{theirs}.{n}") for entry in self.block)


def sizes(config: GPTConfig, vocabulary: int) -> dict[str, int]:
    width = config.width
    return {"V": vocabulary, "P": config.maximum_length, "D": width, "3D": 3 * width, "F": config.feedforward}


def table(ours: str, theirs: str, rows: str, tied: str = "") -> tuple[Entry, ...]:
    return (Entry(f"{ours}.weight", (f"{theirs}.weight",), (rows, "D"), tied=tied),)


def norm(ours: str, theirs: str) -> tuple[Entry, ...]:
    return tuple(Entry(f"{ours}.{part}", (f"{theirs}.{part}",), ("D",)) for part in ("weight", "bias"))


def conv(ours: str, theirs: str, outputs: str, inputs: str) -> tuple[Entry, ...]:
    """A linear map that they call a convolution of width 1, and so store transposed."""
    return (
        Entry(f"{ours}.weight", (f"{theirs}.weight",), (outputs, inputs), transposed=True),
        Entry(f"{ours}.bias", (f"{theirs}.bias",), (outputs,)),
    )


def ignored(keys: str) -> dict[str, Meaning]:
    return dict.fromkeys(keys.split(), Ignored())


COMMON: dict[str, Meaning] = {
    "is_encoder_decoder": Only((False,)),
    "add_cross_attention": Only((False,)),
    "cross_attention_hidden_size": Only((None,)),
    "tie_encoder_decoder": Only((False,)),
    "tie_word_embeddings": Only((True,)),
    "pruned_heads": Only(({}, None)),
    **ignored("model_type architectures transformers_version _name_or_path _commit_hash name_or_path tokenizer_class prefix"),
    **ignored("dtype torch_dtype use_bfloat16 torchscript xla_device gradient_checkpointing chunk_size_feed_forward"),
    **ignored("attn_implementation _attn_implementation _attn_implementation_autoset _attn_implementation_internal"),
    **ignored("output_attentions output_hidden_states output_past return_dict use_cache tf_legacy_loss initializer_range"),
    **ignored("bos_token_id eos_token_id pad_token_id sep_token_id decoder_start_token_id"),
    **ignored("id2label label2id num_labels _num_labels problem_type finetuning_task task_specific_params"),
    # What transformers 4 wrote about generation, before that had a file of its own.
    **ignored(
        "max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p"
    ),
    **ignored("typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids"),
    **ignored("num_return_sequences output_scores return_dict_in_generate forced_bos_token_id forced_eos_token_id"),
    **ignored("remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens"),
}
"""The keys that transformers 4 and 5 write for every model."""

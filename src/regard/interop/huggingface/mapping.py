"""A layout says, as data, what a public `config.json` means in our settings and what its tensors are called here.

Of each key of the config it says one of four things: it is a number of ours, it is a choice of ours under another name, it can
have only the values that we compute, or it changes nothing that is computed. A key that is in no table may mean anything.
Of each tensor it says where ours is found, and its shape in the letters of `sizes`: V vocabulary, P positions, D width,
F feed-forward width, E width of words, S segments, C labels; figures stand for themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from regard.families.bert import BERTConfig
from regard.families.gpt import GPTConfig

Config = GPTConfig | BERTConfig
Settings = Mapping[str, Any]  # ours, without `model.`


@dataclass(frozen=True)
class Number:
    """A setting of ours. Where the key is missing, transformers takes the default; None leaves it to what is implied."""

    setting: str
    default: float | None
    whole: bool = True
    least: int = 1  # of whole ones


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
    again: tuple[str, ...] = ()  # where else theirs may be stored, instead or once more
    inside: bool = True  # below the prefix of the body

    def within(self, ours: str, theirs: str) -> Entry:
        return replace(self, ours=f"{ours}.{self.ours}", theirs=tuple(f"{theirs}.{name}" for name in self.theirs))


def _same(settings: Settings) -> Settings:
    return settings


def _as_it_is(config: Config, heads: Sequence[str]) -> Config:
    return config


@dataclass(frozen=True)
class Layout:
    model_type: str
    architectures: Mapping[str, tuple[str, ...]]  # classes of transformers that open it, and the heads that each must have
    config: type[GPTConfig] | type[BERTConfig]
    keys: Mapping[str, Meaning]
    implied: Callable[[Settings], Settings]  # what no key says, from what the keys say
    prefix: str  # of the body's tensors, where a head is stored beside them; without heads it may be missing
    whole: tuple[Entry, ...]
    blocks: tuple[str, str]  # where they lie, ours and theirs
    block: tuple[Entry, ...]
    buffers: tuple[str, ...]  # ends of names of tensors that are not learned
    heads: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)  # by the names of `Heads`: what a folder may have or not
    ours: Callable[[Settings], Settings] = _same  # settings as the keys have them, as we have them
    theirs: Callable[[Settings], Settings] = _same  # and back
    fitted: Callable[[Config, Sequence[str]], Config] = _as_it_is  # to the heads that came along

    def entries(self, config: Config, heads: Iterable[str] = ()) -> Iterator[Entry]:
        size = sizes(config, 1)
        yield from (entry for entry in self.whole if all(size.get(letter) != 0 for letter in entry.shape))
        ours, theirs = self.blocks
        for n in range(config.layers):
            yield from (entry.within(f"{ours}.{n}", f"{theirs}.{n}") for entry in self.block)
        for head in heads:
            yield from self.heads[head]

    @property
    def writes(self) -> bool:
        """Does it go on with a text, word after word?"""
        return self.config is GPTConfig

    def opened_by(self, raw: Mapping[str, Any]) -> str:
        """The class of transformers that opens a folder with this config."""
        if self.writes:
            return "AutoModelForCausalLM"
        named = raw.get("architectures") or [None]
        name = named[0] if isinstance(named, list) else None
        return name if isinstance(name, str) and name in self.architectures else "AutoModel"


def sizes(config: Config, vocabulary: int, labels: int = 0) -> dict[str, int]:
    """Return sizes, 0 for parts that a model does not have."""
    width = config.width
    size = {"V": vocabulary, "P": config.maximum_length, "D": width, "3D": 3 * width, "F": config.feedforward}
    size |= {"C": labels, "1": 1, "2": 2}
    if isinstance(config, BERTConfig):
        words = config.words_width
        size |= {"P": config.first_position + config.maximum_length, "E": words, "S": config.segments}
        size |= {"wider D": 0 if words == width else width}
    return size


def table(ours: str, theirs: str, rows: str, tied: str = "", columns: str = "D", inside: bool = True) -> tuple[Entry, ...]:
    return (Entry(f"{ours}.weight", (f"{theirs}.weight",), (rows, columns), tied=tied, inside=inside),)


def norm(ours: str, theirs: str, width: str = "D", inside: bool = True) -> tuple[Entry, ...]:
    return tuple(Entry(f"{ours}.{part}", (f"{theirs}.{part}",), (width,), inside=inside) for part in ("weight", "bias"))


def linear(ours: str, theirs: str, outputs: str, inputs: str, inside: bool = True) -> tuple[Entry, ...]:
    """Map one linear layer of ours to one of theirs, or to several, separated by commas."""
    names = theirs.split(",")
    return (
        Entry(f"{ours}.weight", tuple(f"{name}.weight" for name in names), (outputs, inputs), inside=inside),
        Entry(f"{ours}.bias", tuple(f"{name}.bias" for name in names), (outputs,), inside=inside),
    )


def conv(ours: str, theirs: str, outputs: str, inputs: str) -> tuple[Entry, ...]:
    """A linear map that they call a convolution of width 1, and so store transposed."""
    weight, bias = linear(ours, theirs, outputs, inputs)
    return replace(weight, transposed=True), bias


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

"""A layout says, as data, what a public `config.json` means in our settings and what its tensors are called here.

Of each key of the config it says one of four things: it is a number of ours, it is a choice of ours under another name, it can
have only the values that we compute, or it changes nothing that is computed. A key that is in no table may mean anything.
Of each tensor it says where ours is found, and its shape in the letters of `sizes`: V vocabulary, T target vocabulary, P
positions, D width, I all heads side by side, K all key heads, F feed-forward width, E width of words, S segments, C labels; of an
image, P numbers in a patch, G vectors in the table of positions, W and X the widths of a decoder as D and F are an encoder's;
figures stand for themselves. A size of 0 leaves a tensor out: a model has no such part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from torch import Tensor

from regard.families.bert import BERTConfig
from regard.families.gpt import GPTConfig
from regard.families.transformer import TransformerConfig

if TYPE_CHECKING:  # to name them: a translator is opened without the families of images and of series
    from regard.families.image_transformer import ImageTransformerConfig
    from regard.families.patchtst import PatchTSTConfig
    from regard.families.time_series_transformer import TimeSeriesTransformerConfig
    from regard.families.vit import ViTConfig

SeriesConfig: TypeAlias = "PatchTSTConfig | TimeSeriesTransformerConfig"
Config: TypeAlias = "GPTConfig | BERTConfig | TransformerConfig | ViTConfig | ImageTransformerConfig | SeriesConfig"
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
class Flag:
    """A setting of ours that is true or false."""

    setting: str
    default: bool


@dataclass(frozen=True)
class Raw:
    """A value that the layout's `ours` and `theirs` translate, such as the table of a rotation."""

    setting: str
    default: Any = None


@dataclass(frozen=True)
class Only:
    """No setting of ours: other values would ask for mathematics that we do not have."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Ignored:
    """Says something about training, generation, other heads or bookkeeping; the same is computed whatever its value."""


Meaning = Number | Choice | Flag | Raw | Only | Ignored
SETTINGS = Number | Choice | Flag | Raw


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
    parts: tuple[str, ...] = ()  # rows of each of theirs, where they are not alike
    row: bool = False  # theirs is the one row of a matrix, and zeros where it is missing
    ones: int = 0  # dimensions of size 1 that theirs has in front
    pixels: bool = False  # theirs is a convolution over patches, colours first; each row of ours is row, column, colour

    def within(self, ours: str, theirs: str) -> Entry:
        return replace(self, ours=f"{ours}.{self.ours}", theirs=tuple(f"{theirs}.{name}" for name in self.theirs))

    def rows(self, size: Mapping[str, int]) -> list[int]:
        """Return how many rows of ours each of theirs has."""
        alike = size[self.shape[0]] // len(self.theirs)
        return [size[letter] for letter in self.parts] or [alike] * len(self.theirs)


class Blocks(NamedTuple):
    """The tensors of one block, and where blocks lie, ours and theirs."""

    ours: str
    theirs: str
    entries: tuple[Entry, ...]

    def count(self, config: Config) -> int:
        encoder_layers, decoder_layers = config.depth
        if self.ours.startswith("encoder"):
            return encoder_layers
        return decoder_layers or getattr(config, "decoder_layers", 0)  # of a masked autoencoder


class Described(NamedTuple):
    config: Config
    notes: tuple[str, ...]


def _same(settings: Settings) -> Settings:
    return settings


def _as_it_is(config: Config, heads: Sequence[str], tensors: Mapping[str, Tensor]) -> Config:
    return config


def _nothing_more(config: Config) -> tuple[Entry, ...]:
    return ()


@dataclass(frozen=True)
class Layout:
    model_type: str
    architectures: Mapping[str, tuple[str, ...]]  # classes of transformers that open it, and the heads that each must have
    config: type[Any]
    keys: Mapping[str, Meaning]
    implied: Callable[[Settings], Settings]  # what no key says, from what the keys say
    prefix: str  # of the body's tensors, where a head is stored beside them; without heads it may be missing
    whole: tuple[Entry, ...]
    blocks: tuple[Blocks, ...]
    buffers: tuple[str, ...]  # ends of names of tensors that are not learned
    heads: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)  # by the names of `Heads`: what a folder may have or not
    ours: Callable[[Settings], Settings] = _same  # settings as the keys have them, as we have them
    theirs: Callable[[Settings], Settings] = _same  # and back
    always: Mapping[str, Any] = field(default_factory=dict)  # keys that are written beside those, for other programs
    fitted: Callable[[Config, Sequence[str], Mapping[str, Tensor]], Config] = _as_it_is
    """(config, heads that came along, tensors by their short names) -> the config that these have."""
    sized: Callable[..., dict[str, int]] | None = None  # in place of `sizes`, for families with other parts
    more: Callable[[Config], Iterable[Entry]] = _nothing_more  # entries that a table of blocks cannot say
    others: tuple[Layout, ...] = ()  # of the same model_type: taken where `architectures` names one of theirs
    unused: tuple[str, ...] = ()  # ends of names of tensors that are learned, but in no computation of ours; a note says so
    spellings: Mapping[str, str] = field(default_factory=dict)  # parts of names that some version writes otherwise
    elsewhere: tuple[str, ...] = ()  # settings that are written into other files than config.json
    pixels: Callable[[Config, Mapping[str, Any] | None, str], Described] | None = None
    """(config, preprocessor_config.json if there is one, where) -> the config whose pixels are these; of models of images."""
    preprocessor: Callable[[Config], dict[str, Any]] | None = None  # and back
    clusters: str = ""  # a tensor of ours, the colours of a palette, that preprocessor_config.json has and not the weights
    computed: Callable[[Config, str], Mapping[str, Tensor]] = lambda config, prefix: {}  # tensors of theirs that ours computes

    def sizes(self, config: Config, vocabulary: int, labels: int = 0, target: int = 0) -> dict[str, int]:
        """Return sizes by the letters of the entries."""
        return (self.sized or sizes)(config, vocabulary, labels, target)

    def entries(self, config: Config, heads: Iterable[str] = ()) -> Iterator[Entry]:
        size = self.sizes(config, 1)

        def has(entry: Entry) -> bool:
            return all(size.get(letter) != 0 for letter in entry.shape)

        yield from filter(has, self.whole)
        for blocks in self.blocks:
            there = [entry for entry in blocks.entries if has(entry)]
            for n in range(blocks.count(config)):
                yield from (entry.within(f"{blocks.ours}.{n}", f"{blocks.theirs}.{n}") for entry in there)
        yield from self.more(config)
        for head in heads:
            yield from self.heads[head]

    @property
    def writes(self) -> bool:
        """Does it write a text, word after word?"""
        return issubclass(self.config, GPTConfig | TransformerConfig)

    @property
    def reads_a_source(self) -> bool:
        return issubclass(self.config, TransformerConfig)

    def opened_by(self, raw: Mapping[str, Any]) -> str:
        """The class of transformers that opens a folder with this config."""
        if self.writes:
            return "AutoModelForSeq2SeqLM" if self.reads_a_source else "AutoModelForCausalLM"
        named = raw.get("architectures") or [None]
        name = named[0] if isinstance(named, list) else None
        return name if isinstance(name, str) and name in self.architectures else "AutoModel"


def sizes(config: Config, vocabulary: int, labels: int = 0, target: int = 0) -> dict[str, int]:
    """Return sizes, 0 for parts that a model does not have. `target` is the vocabulary that is written, if another."""
    width, inner, keys = config.width, config.heads * config.key_width, (config.kv_heads or config.heads) * config.key_width
    size = {"V": vocabulary, "P": config.maximum_length, "D": width, "3D": 3 * width, "F": config.feedforward}
    size |= {"C": labels, "1": 1, "2": 2, "2D": 2 * width, "I": inner, "2I": 2 * inner, "3I": 3 * inner}
    size |= {"K": keys, "I+2K": inner + 2 * keys, "normed K": config.key_width if config.qk_norm else 0}
    size |= {"biased I+2K": inner + 2 * keys if config.qkv_bias else 0}
    gated = config.feedforward_kind == "gated"
    size |= {"gated F": config.feedforward if gated else 0, "plain F": 0 if gated else config.feedforward}
    target, apart = target or vocabulary, getattr(config, "tie", "output") in ("none", "inputs")
    size |= {"T": target, "own T": target if apart else 0, "tied T": 0 if apart else target}
    size |= {"buckets": config.buckets, "heads": config.heads}
    if isinstance(config, TransformerConfig):
        one = config.tie in ("all", "inputs")  # matrix for source and target
        size |= {"shared V": vocabulary if one else 0, "apart V": 0 if one else vocabulary, "apart T": 0 if one else target}
        size |= {"normed E": width if config.embedding_norm else 0, "pre D": width if config.norm_placement == "pre" else 0}
        size |= {"learned P": config.first_position + config.maximum_length if config.position == "learned" else 0}
    if isinstance(config, BERTConfig):
        words = config.words_width
        size |= {"P": config.first_position + config.maximum_length, "E": words, "S": config.segments}
        size |= {"wider D": 0 if words == width else width}
    return size


def table(
    ours: str, theirs: str, rows: str, tied: str = "", columns: str = "D", inside: bool = True, again: tuple[str, ...] = ()
) -> tuple[Entry, ...]:
    return (Entry(f"{ours}.weight", (f"{theirs}.weight",), (rows, columns), tied=tied, inside=inside, again=again),)


def norm(ours: str, theirs: str, width: str = "D", inside: bool = True) -> tuple[Entry, ...]:
    return tuple(Entry(f"{ours}.{part}", (f"{theirs}.{part}",), (width,), inside=inside) for part in ("weight", "bias"))


def scale(ours: str, theirs: str, width: str = "D") -> tuple[Entry, ...]:
    """Map a norm without a shift."""
    return (Entry(f"{ours}.weight", (f"{theirs}.weight",), (width,)),)


def matrix(ours: str, theirs: str, outputs: str, inputs: str, parts: str = "") -> tuple[Entry, ...]:
    """Map one linear layer without a bias to one of theirs, or to several, separated by commas, with `parts` as their rows."""
    names = tuple(f"{name}.weight" for name in theirs.split(","))
    return (Entry(f"{ours}.weight", names, (outputs, inputs), parts=tuple(parts.split())),)


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

"""`Family`: one value that says all that the rest of the package needs to know about a kind of model.

A family is a file of this folder that ends with `FAMILY = Family(...)`; recipes name it by the file's name, `model.family=gpt`.
Code outside `families/` and `interop/` never asks for the class of a model or of its settings. It asks for a capability:

    family_of(config).has("causal_lm")          # or any object with a `config`: family_of(model)
    model = family_of(config).build(config, Sizes(vocabulary=8_000), seed=0)
    logits = model(*family_of(config).inputs(config, sizes, batch=2, length=16))

Settings of every family have `family`, `width`, `dropout`, `packable` (may sequences be packed end to end?), `context` (the most
tokens of a text, None without a limit) and `depth` (encoder layers, decoder layers).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.core.errors import UserError

if TYPE_CHECKING:
    from regard.data.batching.labelled import SpecialTokens
    from regard.families.flops import Part
    from regard.text.specials import Roles

CAPABILITIES = {
    "seq2seq": "model(source_BM, lengths_B, target_BL) -> logits_BLV, and start() for a decoder that writes the target",
    "dialogue_context": "a seq2seq model that reads the turns of a dialogue, each ended by the last piece of its vocabulary",
    "causal_lm": "model(ids_BL) -> logits_BLV of the next token, and start() for a decoder that continues a prompt",
    "pixel_lm": "model(ids_BL) -> scores_BLV of an image's next value, and start() for a decoder that draws the rest",
    "masked_lm": "model(ids_BL, words) -> logits_BLV of masked tokens",
    "replaced_token": "a generator and a discriminator: model(ids_BL, words) -> logits_BL that a token was replaced",
    "bidirectional_lm": "model(ids_BL, words) -> logits_BLV of the next and of the previous token, each by a network of its own",
    "visual_questions": "model(ids_BL, lengths_B, image_IYXC, owner_B) -> logits_BC of answers, and image_weights(probe)",
    "captioning": "model(image_BYXC, target_BL) -> logits_BLV, and start() for a decoder that writes the caption",
    "image_classification": "model(image_BYXC) -> logits_BC; outputs(image_BYXC) -> one logits_BC a head: classes, distilled",
    "masked_image_modeling": "model(image_BYXC, shown_BS) -> patches_BGP, all cells of an image restored from those shown",
    "forecasting": "model(past_BLC) -> future_BHC, future_BHCQ where Heads has quantiles, parameters_BHCP for a distribution",
    "covariates": "a forecasting model that reads what is known in advance: model(past_BLC, known_BME), M = L + H times",
    "static_covariates": "a forecasting model that reads what is constant in a series: model(past_BLC, known_BME, static_BS)",
    "word_vectors": "a table of static vectors, one for each word",
    "token_vectors": "hidden(ids_BL, words, segments_BL) -> x_BLD that depends on both sides of each token",
    "token_heads": "takes Heads: tags, a pooled vector and, where `span_head` is there too, answer spans",
    "span_head": "takes Heads(span=True): the start and the end of an answer",
    "pooled_vector": "can be a classifier's body: one vector for a text",
    "tower": "can be the body of a two-tower retriever: hidden(ids_BL, words)",
    "nested_documents": "reads a document sentence by sentence: attention over words and over sentences",
    "attention": "has attention that a probe can record",
    "blocks": "is made of Transformer blocks alone: can be pruned, compiled, sharded and trained with activation checkpointing",
    "compiles_steps": "its steps can be compiled, though it is not made of blocks",
}

MOST_LAYERS = 4_096  # the deepest Transformer that was published has 1,000 (Wang et al. 2022, DeepNet)


@dataclass(frozen=True, kw_only=True)
class Heads:
    """Output heads of a body. `classes` and `tags` are numbers of outputs; 0 means no such head."""

    words: bool = True  # logits of masked tokens
    pooler: bool = False  # one vector for the whole text, which next_sentence and classes read
    next_sentence: bool = False  # two logits a text: the second text follows the first, or not
    classes: int = 0  # logits a text
    tags: int = 0  # logits a token
    span: bool = False  # two logits a token: an answer starts here, it ends here
    replaced: bool = False  # one logit a token: it was replaced
    channels: int = 0  # series that are forecast side by side
    quantiles: int = 0  # numbers that are forecast for each time of each; 0: one
    distribution: str = ""  # whose parameters are forecast in place of them, by its name in model/series/distributions.py
    covariates: int = 0  # series that are known in advance
    statics: int = 0  # numbers that are constant in a series

    @property
    def pooled(self) -> bool:
        return self.pooler or self.next_sentence or self.classes > 0


MASKED_WORDS = Heads()


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of a model that its data and its task decide, not its settings."""

    vocabulary: int  # pieces that are read
    target_vocabulary: int = 0  # pieces that are written by a seq2seq model; 0: as many as are read
    heads: Heads = MASKED_WORDS
    word_biases: bool = False  # of word vectors: a bias a word, as GloVe has it

    @property
    def written(self) -> int:
        return self.target_vocabulary or self.vocabulary


class CellConfig:
    """Properties that settings of families with recurrent cells share."""

    packable = False  # a word is read after the word before it, so sequences lie side by side, not end to end
    position = "none"  # cells know the order by themselves
    context: int | None = None
    kept_of_source = 0  # numbers that decoding keeps of each source token
    carried = 0  # numbers that decoding keeps of all it has written
    cell: str
    width: int
    depth: tuple[int, int]

    @property
    def attends(self) -> str:
        """Attention in a few words; empty where there is none."""
        return ""

    @property
    def summary(self) -> str:
        layers = "+".join(str(number) for number in self.depth if number)
        return f"width {self.width}, {layers} layers of {self.cell} cells, {self.attends or 'no attention'}"


def first_role(*choices: int | None) -> int:
    """Return the first special token that this vocabulary has."""
    found = next((choice for choice in choices if choice is not None), None)
    if found is None:
        raise UserError(
            "this vocabulary has no piece that could start or end a text; start from a model whose tokenizer has one."
        )
    return found


def end_marks(config: Any, roles: Roles) -> SpecialTokens:
    """Return the vocabulary's own end token for the start and the end of a text, and its start token between two texts.

    Radford et al. 2018, section 3.2, have three new tokens: start, delimiter and extract.
    """
    from regard.data.batching.labelled import SpecialTokens

    end = first_role(roles.eos, roles.sos, roles.unk)
    return SpecialTokens(end, first_role(roles.sos, end), end)


@dataclass(frozen=True, kw_only=True)
class Family:
    name: str
    config: type[Any]
    build: Callable[[Any, Sizes, int], nn.Module]
    """(config, sizes, seed) -> a new model. Under `torch.device("meta")` it allocates nothing and draws no weights."""
    inputs: Callable[[Any, Sizes, int, int, int], tuple[Any, ...]]
    """(config, sizes, batch, length, source) -> what model(*inputs) takes, on torch's default device. See `example`."""
    capabilities: frozenset[str]
    marks: Callable[[Any, Roles], SpecialTokens] = end_marks
    """(config, roles) -> the special tokens before, between and after texts, where a task adds any."""

    def __post_init__(self) -> None:
        if unknown := self.capabilities - CAPABILITIES.keys():
            raise ValueError(f"the family {self.name} names capabilities that CAPABILITIES does not list: {sorted(unknown)}")

    def has(self, *capabilities: str) -> bool:
        """Return whether the family has all of these capabilities."""
        if unknown := set(capabilities) - CAPABILITIES.keys():
            raise KeyError(f"CAPABILITIES does not list {sorted(unknown)}")
        return self.capabilities.issuperset(capabilities)

    def has_any(self, *capabilities: str) -> bool:
        """Return whether the family has one of these capabilities."""
        return any(self.has(capability) for capability in capabilities)

    def count(self, config: Any, sizes: Sizes, length: int, source: int = 0, scored: int | None = None) -> Part:
        """Return the tree of a model with the operations of one text of `length` tokens, or of a pair (see `example`).

        Every head of the model is counted; where only some tokens are masked, the head of words for these `scored` tokens.
        """
        from regard.families.flops import count, on_meta

        if sum(config.depth) > MOST_LAYERS:
            raise UserError(f"this model has {sum(config.depth):,} layers, and {MOST_LAYERS:,} are the most; lower model.layers.")
        model: Any = on_meta(lambda: self.build(config, sizes, 0))

        def run() -> None:
            inputs = self.example(config, sizes, 1, length, source)
            if hasattr(model, "outputs"):
                model.outputs(*inputs, scored=scored)
            else:
                model(*inputs)

        return count(model, run, self.name)

    def example(self, config: Any, sizes: Sizes, batch: int = 1, length: int = 16, source: int = 0) -> tuple[Any, ...]:
        """Return random inputs of `batch` texts with `length` tokens, or of pairs with `source` tokens (0: `length`) to read."""
        return self.inputs(config, sizes, batch, length, source or length)


def head_outputs(model: Any, x_BLD: Tensor, words: Tensor, scored: int | None = None) -> dict[str, Tensor]:
    """Return what every head of a body makes of its vectors; the head of words, of the first `scored` tokens of each text."""
    found = {"words": model.head(x_BLD[:, :scored])} if hasattr(model, "head") else {}
    if hasattr(model, "pooler"):
        found["pooler"] = model.pooler(x_BLD, words)
        found |= {name: getattr(model, name)(found["pooler"]) for name in ("next_sentence", "classes") if hasattr(model, name)}
    return found | {name: getattr(model, name)(x_BLD) for name in ("tags", "span", "replaced") if hasattr(model, name)}


def random_ids(vocabulary: int, batch: int, length: int) -> Tensor:
    """Return ids_BL without special tokens, where the vocabulary has more than these. On the meta device, a shape alone."""
    if torch.get_default_device().type == "meta":
        return torch.empty(batch, length, dtype=torch.long)
    return torch.randint(min(4, vocabulary - 1), vocabulary, (batch, length))


def all_words(batch: int, length: int) -> Tensor:
    """Return lengths_B of rows without padding."""
    return torch.full((batch,), length)

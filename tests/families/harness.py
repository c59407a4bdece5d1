"""What every family must do, written once: shapes, gradients, causality, padding, caching, saving, compiling, precision.

A check takes a `Variant`: a family with settings and sizes. It asks the family for inputs, and is made for the capabilities that
`NEEDS` lists; families without them are not checked by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.families import FAMILIES
from regard.families.base import Family, Sizes
from regard.model.state.protocol import RowCompaction, State
from regard.training.checkpoint import Store

ROWS, LENGTH, SOURCE = 3, 7, 12


@dataclass(frozen=True)
class Variant:
    """A family under test, with a choice of parts."""

    name: str
    config: Any
    sizes: Sizes
    backwards: bool = False  # compiled, forwards and backwards; PyTorch does not trace its own recurrent kernels

    @property
    def family(self) -> Family:
        return FAMILIES[self.config.family]

    @property
    def reads_lengths(self) -> bool:
        if (reads := getattr(self.config, "reads", "")) or self.family.has("visual_questions"):
            return reads != "image"
        return self.family.has_any("seq2seq", "token_vectors", "nested_documents")

    def build(self, layers: int = 0) -> nn.Module:
        config = replace(self.config, layers=layers) if layers else self.config
        return self.family.build(config, self.sizes, 7)

    def inputs(self) -> list[Tensor]:
        """Inputs of the family's own, some rows shorter than others where rows have lengths."""
        torch.manual_seed(5)
        found = list(self.family.example(self.config, self.sizes, ROWS, LENGTH, SOURCE))
        if self.reads_lengths:
            lengths, longest = found[1], found[0].shape[1]
            found[1] = torch.tensor([longest, *([max(1, longest - 3), 2] * 3)])[: len(lengths)]
        return found


def outputs(model: Any, inputs: list[Tensor]) -> dict[str, Tensor]:
    """Everything that a model says, by name."""
    found = model.outputs(*inputs) if hasattr(model, "outputs") else model(*inputs)
    return found if isinstance(found, dict) else {"logits": found}


def changed(ids: Tensor, vocabulary: int) -> Tensor:
    """Other words, none of them special."""
    return (ids - 3) % (vocabulary - 5) + 4


# --- every family ---------------------------------------------------------------------------------------------------------
def check_shapes(variant: Variant) -> None:
    inputs = variant.inputs()
    for x in outputs(variant.build().eval(), inputs).values():
        assert len(x) in (len(inputs[0]), ROWS)  # pairs that are read apart are two rows
        assert x.isfinite().all()


def check_gradients_reach_every_parameter(variant: Variant) -> None:
    model = variant.build().train()
    if variant.family.has("word_vectors"):
        assert not any(p.requires_grad for p in model.parameters())  # its trainer takes steps by hand
        return
    torch.manual_seed(11)
    sum((x * torch.randn(x.shape)).sum() for x in outputs(model, variant.inputs()).values()).backward()
    unreached = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not unreached


def check_rows_do_not_depend_on_each_other(variant: Variant) -> None:
    """A row alone, without its padding, says what it says in the batch; whatever stands in the padding changes nothing."""
    model, inputs = variant.build().eval(), variant.inputs()
    if getattr(variant.config, "pairs", "") == "apart":
        return  # two rows belong together
    rows, garbage = [[x[row : row + 1] for x in inputs] for row in range(ROWS)], list(inputs)
    if variant.reads_lengths:
        garbage[0] = inputs[0].clone()
        for row, length in enumerate(inputs[1].tolist()):
            rows[row][0] = rows[row][0][:, :length]
            garbage[0][row, length:] = 1
    batch, same = outputs(model, inputs), outputs(model, garbage)
    for row, alone in enumerate(rows):
        for name, x in outputs(model, alone).items():
            given = slice(None, x.shape[1])  # tokens, or classes
            torch.testing.assert_close(x[0], batch[name][row, given], atol=2e-5, rtol=1e-5)
            torch.testing.assert_close(same[name][row, given], batch[name][row, given], atol=2e-5, rtol=1e-5)


def check_saved_and_loaded_is_equal(variant: Variant, path: Any) -> None:
    """Also into a model that was built on the meta device, which has the same names and shapes."""
    model, other = variant.build().eval(), variant.build().eval()
    for p in other.parameters():
        p.data.zero_()
    store = Store(path)
    store.save("step", 1, {"model": model.state_dict()}, {})
    saved = store.newest("step").tensors("model")
    other.load_state_dict(saved)
    inputs = variant.inputs()
    for name, x in outputs(model, inputs).items():
        assert torch.equal(x, outputs(other, inputs)[name])
    with torch.device("meta"):
        empty = variant.build()
    assert {name: x.shape for name, x in empty.state_dict().items()} == {name: x.shape for name, x in saved.items()}


def check_the_seed_decides_the_weights(variant: Variant) -> None:
    torch.manual_seed(123)
    first = variant.build().state_dict()
    torch.manual_seed(456)
    second = variant.build().state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def check_all_parameters_are_counted(variant: Variant) -> None:
    part = variant.family.count(variant.config, variant.sizes, LENGTH, SOURCE)
    assert part.parameters == sum(p.numel() for p in variant.build().parameters())
    assert part.flops > 0


def check_bf16_is_close_to_fp32(variant: Variant) -> None:
    """A number of bf16 has 8 bits, so each rounding errs by up to 2^-9 of it; independent errors of n products add up to sqrt(n)
    of that, and residuals carry all of them to the end. Twice that is allowed."""
    model, inputs = variant.build().eval(), variant.inputs()
    products = sum(isinstance(m, nn.Linear | nn.LSTM | nn.GRU | nn.Conv2d) for m in model.modules())
    with torch.no_grad():
        exact = outputs(model, inputs)
        with torch.autocast("cpu", torch.bfloat16):
            rounded = outputs(model, inputs)
    for name, x in exact.items():
        error = (rounded[name].float() - x).square().mean().sqrt()
        assert error <= 2 * 2**-9 * (1 + products) ** 0.5 * (x.square().mean().sqrt() + 1e-3), name


# --- families that read a text --------------------------------------------------------------------------------------------
def check_an_encoder_reads_both_sides(variant: Variant) -> None:
    """A word's vector changes with the word before it and with the word after it."""
    model, inputs = variant.build().eval(), variant.inputs()
    if not getattr(variant.config, "bidirectional", True):
        return
    ids, lengths = inputs[0][:1], torch.tensor([inputs[0].shape[1]])

    def vectors(ids: Tensor) -> Tensor:
        if variant.family.has("seq2seq"):
            return (model.encode if variant.family.has("blocks") else model.read)(ids, lengths)
        return model.layers(ids, lengths)[-1] if variant.family.has("bidirectional_lm") else model.hidden(ids, lengths)

    before = vectors(ids)
    for neighbour in (0, 2):
        other = ids.clone()
        other[:, neighbour] = changed(ids[:, neighbour], variant.sizes.vocabulary)
        assert not torch.allclose(vectors(other)[0, 1], before[0, 1], atol=1e-7), f"word 1 does not depend on word {neighbour}"


# --- families that read images --------------------------------------------------------------------------------------------
def check_every_part_of_an_image_is_seen(variant: Variant) -> None:
    """What an image is changes with each of its corners, and with where they stand; other sizes are read as well."""
    if getattr(variant.config, "reads", "image") != "image":
        return
    model, (image, *_) = variant.build().eval(), variant.inputs()
    before, side = model(image), image.shape[1] // 3
    for rows in (slice(side), slice(-side, None)):
        for columns in (slice(side), slice(-side, None)):
            other = image.clone()
            other[:, rows, columns] = 255 - other[:, rows, columns]
            assert not torch.allclose(model(other), before, atol=1e-6)
    if getattr(variant.config, "position", "") != "none":
        assert not torch.allclose(model(image.transpose(1, 2)), before, atol=1e-6)
    larger = torch.cat([image, image], 1)
    assert model(larger).shape == before.shape


# --- families that write word after word ----------------------------------------------------------------------------------
class Writing(NamedTuple):
    """How a family writes: what it reads of some rows before the first word, and its logits_BLV of words that are all given."""

    start: Callable[[list[int]], Any]
    logits: Callable[[list[int], Tensor], Tensor]
    first: Callable[[int], Any]  # what it reads of the first row alone, cut to so many words


def writing(variant: Variant, model: Any) -> Writing:
    read = variant.inputs()[:-1]
    if not variant.family.has_any("causal_lm", "pixel_lm"):
        cut = variant.family.has("seq2seq")

        def first(words: int) -> Any:
            return model.start(read[0][:1, :words], torch.tensor([words])) if cut else model.start(read[0][:1])

        def start(rows: list[int]) -> Any:
            return model.start(*(x[rows] for x in read))

        return Writing(start, lambda rows, target: model(*(x[rows] for x in read), target), first)
    prompt, lengths = drawn(variant, ROWS, SOURCE), torch.tensor([SOURCE, 5, 1])

    def after_prompts(rows: list[int], target: Tensor) -> Tensor:
        place = torch.arange(SOURCE + target.shape[1]).expand(len(rows), -1)
        given = lengths[rows][:, None]
        words = prompt[rows].gather(1, place.clamp(max=SOURCE - 1))
        ids = torch.where(place < given, words, target.gather(1, (place - given).clamp(0, target.shape[1] - 1)))
        asked = given + torch.arange(target.shape[1])
        logits = model(ids)
        return logits.gather(1, asked[..., None].expand(-1, -1, logits.shape[-1]))

    return Writing(
        lambda rows: model.start(prompt[rows], lengths[rows]),
        after_prompts,
        lambda words: model.start(prompt[:1, :words], torch.tensor([words])),
    )


ALL = list(range(ROWS))


def drawn(variant: Variant, rows: int, length: int, seed: int = 5) -> Tensor:
    return torch.randint(4, variant.sizes.written, (rows, length), generator=torch.Generator().manual_seed(seed))


def state_of(reading: Any, rows: int, *, tokens: int, lanes: int = 1, fixed: bool = False) -> State:
    state = reading.make_state(rows, lanes, tokens, fixed=fixed)
    state.load(reading, [tokens] * rows)
    return state


def begin(model: Any, source: Tensor, lengths: Tensor, *, tokens: int, lanes: int = 1, fixed: bool = False) -> State:
    return state_of(model.start(source, lengths), len(source), tokens=tokens, lanes=lanes, fixed=fixed)


def stepped(state: State, target: Tensor) -> Tensor:
    """logits_BLV of one lane, token by token."""
    logits = []
    for t in range(target.shape[1]):
        state.grow(1)
        logits.append(state.step(target[:, t : t + 1]))
    return torch.cat(logits, 1)


def check_future_tokens_change_nothing(variant: Variant) -> None:
    model = variant.build().eval()
    *read, target = variant.inputs()
    before = model(*read, target)
    for t in range(1, target.shape[1]):
        other = target.clone()
        other[:, t:] = changed(target[:, t:], variant.sizes.written)
        after = model(*read, other)
        torch.testing.assert_close(after[:, :t], before[:, :t], atol=1e-6, rtol=0)
        assert not torch.allclose(after[:, t], before[:, t])


def check_cached_decoding_is_the_full_forward(variant: Variant) -> None:
    model, target = variant.build().eval(), drawn(variant, ROWS, 70)
    start, logits, _ = writing(variant, model)
    for fixed in (False, True):
        state = state_of(start(ALL), ROWS, tokens=70, fixed=fixed)
        torch.testing.assert_close(stepped(state, target), logits(ALL, target), atol=5e-5, rtol=1e-4)


def check_select_follows_the_rows(variant: Variant) -> None:
    """Lanes that split, swap and die, and sentences that leave, go on as if each had been alone from the start."""
    for fixed in (False, True):
        _check_select(variant, fixed)


@torch.no_grad()
def _check_select(variant: Variant, fixed: bool) -> None:
    model, lanes, draw = variant.build().eval(), 3, torch.Generator().manual_seed(9)
    start, logits, _ = writing(variant, model)
    state = state_of(start(ALL), ROWS, tokens=50, lanes=lanes, fixed=fixed)
    histories: list[list[list[int]]] = [[[] for _ in range(lanes)] for _ in range(ROWS)]
    owners, pending = list(ALL), list[Tensor]()

    def compare() -> None:
        """Every step since the last time these lanes were others, by one pass over what each lane has written."""
        rows = [owner for owner in owners for _ in range(lanes)]
        written = torch.tensor([lane for past in histories for lane in past])
        expected = logits(rows, written)[:, -len(pending) :].unflatten(0, (-1, lanes))
        torch.testing.assert_close(torch.stack(pending, 2), expected, atol=5e-5, rtol=1e-4)
        pending.clear()

    for t in range(50):
        if kept := {6: [2, 1], 40: [1]}.get(t):
            compare()
            state.compact(RowCompaction.of(kept, torch.device("cpu")))
            histories, owners = [histories[s] for s in kept], [owners[s] for s in kept]
        if t % 5 == 4:
            compare()
            parents = torch.randint(0, lanes, (len(owners), lanes), generator=draw)
            state.select(parents)
            histories = [[list(past[p]) for p in row] for past, row in zip(histories, parents.tolist())]
        ids = torch.randint(4, variant.sizes.written, (len(owners), lanes), generator=draw)
        histories = [[[*h, i] for h, i in zip(past, row)] for past, row in zip(histories, ids.tolist())]
        state.grow(1)
        pending.append(state.step(ids))
    compare()


def check_a_state_begins_again_with_fewer_and_shorter(variant: Variant) -> None:
    """Nothing of the sentences a state held before is seen by those it holds now; places without one change nothing."""
    model, target = variant.build().eval(), drawn(variant, ROWS, LENGTH)
    start, _, first = writing(variant, model)
    state = state_of(start(ALL), ROWS, tokens=20, lanes=2, fixed=True)
    state.grow(9)
    for t in range(9):
        state.step(target[:, t % LENGTH, None].repeat(1, 2))
    expected = stepped(state_of(first(2), 1, tokens=LENGTH), target[:1])
    state.load(first(2), [LENGTH])
    for t in range(LENGTH):
        state.grow(1)
        logits = state.step(target[:, t, None].repeat(1, 2))
        assert logits.isfinite().all()
        torch.testing.assert_close(logits[0], expected[0, t].expand(2, -1), atol=5e-5, rtol=1e-4)


# --- families that are compiled -------------------------------------------------------------------------------------------
def check_compiles_without_graph_breaks(variant: Variant) -> None:
    """Training and the decoding step, each as one whole graph. By tracing alone, without C++: aot_eager traces backwards too."""
    torch._dynamo.reset()
    fewer = (
        {} if getattr(variant.config, "pruned", ()) else {"layers": 1}
    )  # a second layer adds only time; pruned heads name both
    model = variant.build(**fewer).eval()
    inputs = variant.inputs()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    expected, found = model(*inputs), compiled(*inputs)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)
    learned = [p for p in model.parameters() if p.requires_grad]
    expected_gradients = torch.autograd.grad(expected.square().sum(), learned, allow_unused=True)
    found_gradients = torch.autograd.grad(found.square().sum(), learned, allow_unused=True)
    for a, b in zip(found_gradients, expected_gradients):
        torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-3)
    if not variant.family.has_any(*WRITES):
        return
    target = drawn(variant, ROWS, LENGTH)
    start, logits, _ = writing(variant, model)
    state = state_of(start(ALL), ROWS, tokens=LENGTH)
    state.model.step = torch.compile(state.model.step, fullgraph=True, backend="eager")
    torch.testing.assert_close(stepped(state, target), logits(ALL, target), atol=5e-5, rtol=1e-4)


WRITES = ("seq2seq", "causal_lm", "pixel_lm", "captioning")
NEEDS = {  # one of these capabilities; checks that are not listed are for every family
    "check_future_tokens_change_nothing": WRITES,
    "check_cached_decoding_is_the_full_forward": WRITES,
    "check_select_follows_the_rows": WRITES,
    "check_a_state_begins_again_with_fewer_and_shorter": WRITES,
    "check_every_part_of_an_image_is_seen": ("image_classification",),
    "check_an_encoder_reads_both_sides": ("token_vectors", "seq2seq"),
}

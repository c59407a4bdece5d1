"""What is pruned is gone: the model computes what it did with those heads switched off, in less memory, and does all it could."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.families import FAMILIES
from regard.families.base import Heads, Sizes
from regard.families.bert import BERT, BERTConfig
from regard.families.classifier import classifier
from regard.families.electra import ELECTRA, ELECTRAConfig
from regard.families.gpt import GPT, GPTConfig
from regard.families.transformer import Transformer, TransformerConfig
from regard.model.probe import attentions, probe
from regard.model.pruning import parse_pruned, prune, pruned_weights, restored_weights, spell_pruned, with_fewer
from tests.families import harness
from tests.families.counting import count_pair
from tests.families.harness import Variant

SIZE = dict(width=32, heads=4, feedforward=48, layers=2, dropout=0.0)
CONFIG = TransformerConfig(**SIZE)
GONE = {"encoder.1.self": {0, 3}, "decoder.0.self": {2}, "decoder.0.cross": {0, 1, 2}, "decoder.1.cross": {1}}
PRUNED = dataclasses.replace(CONFIG, pruned=spell_pruned(GONE))
WIDE = dict(width=64, heads=4, feedforward=48, layers=2, dropout=0.0)


def whole():
    model = Transformer(CONFIG, 30, 30, seed=3).eval()
    for p in model.parameters():  # biases and norms that start as zeros and ones would hide what happens to them
        torch.nn.init.normal_(p, std=0.2, generator=torch.Generator().manual_seed(p.numel()))
    return model


def inputs():
    draw = torch.Generator().manual_seed(0)
    source, target = torch.randint(4, 30, (3, 8), generator=draw), torch.randint(4, 30, (3, 6), generator=draw)
    return source, torch.tensor([8, 5, 2]), target


def gates(model, gone):
    found = {name: torch.ones(attention.heads) for name, attention in attentions(model).items()}
    for name, heads in gone.items():
        found[name][list(heads)] = 0
    return found


subsets = st.fixed_dictionaries({name: st.sets(st.integers(0, 3), max_size=3) for name in attentions(whole())})


@settings(max_examples=15)
@given(subsets)
def test_pruned_is_gated_with_zeros(gone):
    model = whole()
    with probe(model, gates=gates(model, gone)):
        expected = model(*inputs())
    weights = pruned_weights(model.state_dict(), CONFIG, gone)
    rebuilt = Transformer(dataclasses.replace(CONFIG, pruned=spell_pruned(gone)), 30, 30).eval()
    rebuilt.load_state_dict(weights)
    torch.testing.assert_close(rebuilt(*inputs()), expected, atol=1e-5, rtol=1e-5)
    prune(model, gone)
    torch.testing.assert_close(model(*inputs()), expected, atol=1e-5, rtol=1e-5)
    assert {name: a.heads for name, a in attentions(model).items()} == {name: 4 - len(gone[name]) for name in gone}
    assert parse_pruned(model.config.pruned, 4) == {name: tuple(sorted(heads)) for name, heads in gone.items() if heads}


@settings(max_examples=10)
@given(subsets)
def test_restored_has_all_heads_and_computes_the_same(gone):
    model = whole()
    prune(model, gone)
    full = Transformer(CONFIG, 30, 30).eval()
    full.load_state_dict(restored_weights(model.state_dict(), model.config))
    torch.testing.assert_close(full(*inputs()), model(*inputs()), atol=1e-5, rtol=1e-5)


def test_pruned_twice_is_pruned_once_by_the_numbers_of_the_whole():
    once, twice = whole(), whole()
    prune(once, {"decoder.0.cross": {0, 1, 3}})
    prune(twice, {"decoder.0.cross": {1}})
    assert with_fewer(twice.config, {"decoder.0.cross": {0, 2}}) == ("decoder.0.cross:0+1+3",)
    prune(twice, {"decoder.0.cross": {0, 2}})
    assert twice.config == once.config
    assert torch.equal(once(*inputs()), twice(*inputs()))


def test_what_is_not_there_cannot_be_pruned_in_place():
    model = whole()
    with pytest.raises(KeyError, match=r"did you mean 'encoder\.0\.self'"):
        prune(model, {"encoder.0.elf": {1}})
    for heads in ({4}, {0, 1, 2, 3}):
        with pytest.raises(ValueError, match="of which one must stay"):
            prune(model, {"encoder.0.self": heads})
    with pytest.raises(ValueError, match="one by one"):
        prune(ELECTRA(ELECTRAConfig(**SIZE, generator_width=16), 30), {"encoder.0.self": {1}})
    assert model.config == CONFIG


def test_matrices_shrink_and_the_count_knows():
    model = whole()
    before = sum(p.numel() for p in model.parameters())
    prune(model, GONE)
    heads, width, head = sum(map(len, GONE.values())), 32, 8
    assert before - sum(p.numel() for p in model.parameters()) == heads * (3 * head * (width + 1) + head * width)
    assert count_pair(model.config, 30, 30, 8, 6).parameters == sum(p.numel() for p in model.parameters())
    assert count_pair(model.config, 30, 30, 8, 6).flops < count_pair(CONFIG, 30, 30, 8, 6).flops


def test_gradients_devices_and_types_stay():
    model = whole().double()
    model.encoder.requires_grad_(False)
    prune(model, GONE)
    assert {p.dtype for p in model.parameters()} == {torch.float64}
    assert not any(p.requires_grad for p in model.encoder.parameters())
    assert all(p.requires_grad for p in model.decoder.parameters())


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(value, marks=[pytest.mark.slow] * ("compiles" in name))
        for name, value in vars(harness).items()
        if name.startswith("check_") and FAMILIES["transformer"].has_any(*harness.NEEDS.get(name, ["seq2seq"]))
    ],
)
def test_a_pruned_family_passes_the_harness(check, tmp_path):
    family = Variant("transformer, pruned", PRUNED, Sizes(vocabulary=30))
    check(family, tmp_path) if "path" in check.__code__.co_varnames[: check.__code__.co_argcount] else check(family)


def test_the_fused_step_takes_what_is_left():
    """Head by head its kernels ask the cache how many there are; the products, each matrix."""
    model = GPT(GPTConfig(**WIDE, pruned=("decoder.0.self:0+2",)), 30, seed=1).eval()
    assert {a.out.in_features for a in attentions(model).values()} == {32, 64}
    read = model.start(torch.ones(1, 2).long(), torch.tensor([2]))
    past = read.make_state(1, 3, 4, fixed=True)
    assert [cache.kv_2SHNK.shape[2] for cache in past.caches] == [2, 4]


@pytest.mark.parametrize("build", [
    lambda c: GPT(GPTConfig(**c), 30),
    lambda c: BERT(BERTConfig(**c), 30, heads=Heads(words=True, classes=3)),
    lambda c: classifier(GPTConfig(**c), 30, 2),
    lambda c: ELECTRA(ELECTRAConfig(**c, generator_width=16), 30),
])  # fmt: skip
def test_every_family_is_built_without_them(build):
    names = ["encoder.1.self", "decoder.1.self"]
    name = next(name for name in names if name in attentions(build(SIZE)))
    model = build(SIZE | {"pruned": (f"{name}:1+2",)})
    own = getattr(model, "discriminator", model)
    assert {n: a.heads for n, a in attentions(own).items()}[name] == 2
    if own is not model:
        assert {a.heads for a in attentions(model.generator).values()} == {2}  # a generator is another network


@pytest.mark.parametrize(("entries", "sentence"), [
    (["encoder.0.self"], "does not name heads"),
    (["encoder.0.self:"], "does not name heads"),
    (["encoder.0.self:1,2"], "does not name heads"),
    (["encoder.0.self:-1"], "does not name heads"),
    (["encoder.0.elf:1"], "did you mean 'encoder.0.self'?"),
    (["encoder.2.self:1"], "no attention"),
    (["encoder.0.cross:1"], "no attention"),
    (["encoder.0.self:4"], "there is no head 4; encoder.0.self has heads 0 to 3"),
    (["encoder.0.self:0+1+2+3"], "without a head"),
    (["encoder.0.self:0+1", "encoder.0.self:2+3"], "without a head"),
])  # fmt: skip
def test_what_cannot_be_pruned_is_refused(entries, sentence):
    with pytest.raises(UserError, match=r"model\.pruned") as told:
        dataclasses.replace(CONFIG, pruned=tuple(entries))
    assert sentence in str(told.value)


def test_a_family_knows_its_own_attentions():
    for config, names in ((GPTConfig(**SIZE), "decoder.0.self:1"), (BERTConfig(**SIZE), "encoder.0.self:1")):
        dataclasses.replace(config, pruned=(names,))
        with pytest.raises(UserError, match="no attention"):
            dataclasses.replace(config, pruned=(names.replace("coder", "corder"),))
    with pytest.raises(UserError, match="no attention"):
        GPTConfig(**SIZE, pruned=("encoder.0.self:1",))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_pruned_model_decodes_by_kernels_on_a_gpu(dtype):
    from regard.model.kernels import decode_step as kernels

    config = TransformerConfig(**WIDE, pruned=("decoder.0.self:0+2", "decoder.1.cross:3", "encoder.0.self:1"))
    model = Transformer(config, 50, 50, seed=1).cuda().to(dtype).eval()
    source, lengths, target = (t.cuda() for t in inputs())
    with torch.no_grad():
        expected = model(source, lengths, target)
        assert kernels.suits(model.decoder, model.head, torch.zeros(3, 1, 64, device="cuda", dtype=dtype))
        found = harness.stepped(harness.state_of(model.start(source, lengths), len(source), tokens=6, fixed=True), target)
    tolerance = 1e-4 if dtype == torch.float32 else 3e-2
    torch.testing.assert_close(found.float(), expected.float(), atol=tolerance, rtol=tolerance)


def test_a_model_without_biases_is_pruned_in_place():
    model = Transformer(dataclasses.replace(CONFIG, bias=False), 30, 30, seed=3).eval()
    with probe(model, gates=gates(model, GONE)):
        expected = model(*inputs())
    prune(model, GONE)
    torch.testing.assert_close(model(*inputs()), expected, atol=1e-5, rtol=1e-5)


def test_heads_that_share_keys_are_refused_before_anything_changes():
    model = Transformer(dataclasses.replace(CONFIG, kv_heads=2), 30, 30, seed=3).eval()
    before = model(*inputs())
    with pytest.raises(UserError, match="heads share them"):
        prune(model, {"encoder.0.self": {1}})
    assert torch.equal(model(*inputs()), before)

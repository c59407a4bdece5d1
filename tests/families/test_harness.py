"""Every family, in several choices of parts, through the one harness."""

import inspect
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from regard.families.bert import BERT, BERTConfig
from regard.families.captioner import Captioner, CaptionerConfig
from regard.families.classifier import Classifier, classifier
from regard.families.electra import ELECTRA, ELECTRAConfig
from regard.families.elmo import ELMo, ELMoConfig
from regard.families.gpt import GPT, GPTConfig
from regard.families.han import HANConfig
from regard.families.hran import HRAN, HRANConfig
from regard.families.recurrent import Recurrent, RecurrentConfig
from regard.families.transformer import Transformer, TransformerConfig
from regard.model.sparse import dispatch
from regard.model.state.decoder import EncodedPrompt
from regard.text.specials import EOS
from tests.families import harness
from tests.families.harness import Family

SMALL = dict(width=24, heads=3, feedforward=40, layers=2, dropout=0.0)


def deep_and_shallow(build, config) -> dict:
    """How a family is built, and how with one layer."""
    return dict(build=lambda: build(config), shallow=lambda: build(replace(config, layers=1)))


def transformer(name: str, backwards: bool = False, **choices) -> Family:
    config = TransformerConfig(**(SMALL | choices))
    return Family(name, vocabulary=31, backwards=backwards, **deep_and_shallow(lambda c: Transformer(c, 31, 31, seed=7), config))


class Prompted(nn.Module):
    """A decoder alone, with the source as its prompt."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.gpt = gpt

    def forward(self, source_BM: Tensor, lengths_B: Tensor, target_BL: Tensor) -> Tensor:
        (batch, prompt), length = source_BM.shape, target_BL.shape[1]
        place_T = torch.arange(prompt + length).expand(batch, -1)
        words = source_BM.gather(1, place_T.clamp(max=prompt - 1))
        after = target_BL.gather(1, (place_T - lengths_B[:, None]).clamp(0, length - 1))
        logits = self.gpt(torch.where(place_T < lengths_B[:, None], words, after))
        asked = lengths_B[:, None] + torch.arange(length)
        return logits.gather(1, asked[..., None].expand(-1, -1, logits.shape[-1]))

    def start(self, source_BM: Tensor, lengths_B: Tensor) -> EncodedPrompt:
        return self.gpt.start(source_BM, lengths_B)


class Followed(nn.Module):
    """An encoder alone, with the source behind what it is asked for."""

    def __init__(self, bert: BERT) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, source_BM: Tensor, lengths_B: Tensor, target_BL: Tensor) -> Tensor:
        length = target_BL.shape[1]
        segments = (torch.arange(length + source_BM.shape[1]) >= length).long().expand(len(source_BM), -1)
        told = segments if self.bert.config.segments > 1 else None
        return self.bert(torch.cat([target_BL, source_BM], 1), length + lengths_B, told)[:, :length]


class Judged(nn.Module):
    """Both networks of an ELECTRA in one answer: what the generator would write, as far as the discriminator believes it."""

    def __init__(self, electra: ELECTRA) -> None:
        super().__init__()
        self.electra, self.generator = electra, Followed(electra.generator)

    def forward(self, source_BM: Tensor, lengths_B: Tensor, target_BL: Tensor) -> Tensor:
        length = target_BL.shape[1]
        segments = (torch.arange(length + source_BM.shape[1]) >= length).long().expand(len(source_BM), -1)
        replaced = self.electra(torch.cat([target_BL, source_BM], 1), length + lengths_B, segments)[:, :length, None]
        return self.generator(source_BM, lengths_B, target_BL) * (1 + replaced)


class BothWays(nn.Module):
    """What both ways of an ELMo expect, in one answer; the source stands behind what it is asked for."""

    def __init__(self, elmo: ELMo) -> None:
        super().__init__()
        self.elmo = elmo

    def forward(self, source_BM: Tensor, lengths_B: Tensor, target_BL: Tensor) -> Tensor:
        length = target_BL.shape[1]
        ahead, back = self.elmo(torch.cat([target_BL, source_BM], 1), length + lengths_B)
        return (ahead + 2 * back)[:, :length]


class Pictured(nn.Module):
    """A captioner, which is shown the source as an image: a patch for each word, and black where there is none."""

    def __init__(self, captioner: Captioner) -> None:
        super().__init__()
        self.captioner = captioner

    def image(self, source_BM: Tensor, lengths_B: Tensor) -> Tensor:
        side, patch = self.captioner.config.side, self.captioner.config.patch
        words_BM = source_BM.masked_fill(torch.arange(source_BM.shape[1]) >= lengths_B[:, None], 0)
        cells_BM = nn.functional.pad(words_BM, (0, side**2 - source_BM.shape[1]))
        cells_BYX = cells_BM.unflatten(1, (side, side)).repeat_interleave(patch, 1).repeat_interleave(patch, 2)
        return torch.stack([cells_BYX * factor % 256 for factor in (8, 37, 91)], -1).to(torch.uint8)

    def forward(self, source_BM: Tensor, lengths_B: Tensor, target_BL: Tensor) -> Tensor:
        return self.captioner(self.image(source_BM, lengths_B), target_BL)

    def start(self, source_BM: Tensor, lengths_B: Tensor):
        return self.captioner.start(self.image(source_BM, lengths_B))


def captioner(name: str, **choices) -> Family:
    config = CaptionerConfig(**(dict(width=24, layers=1, dropout=0.0, image_size=12, patch=4) | choices))
    compiles = config.decoder == "transformer"
    return Family(name, lambda: Pictured(Captioner(config, 31, seed=7)), 31, compiles=compiles, backwards=compiles)


def gpt(name: str, backwards: bool = False, **choices) -> Family:
    config = GPTConfig(**(SMALL | dict(maximum_length=100) | choices))
    return Family(name, vocabulary=31, backwards=backwards, **deep_and_shallow(lambda c: Prompted(GPT(c, 31, seed=7)), config))


def bert(name: str, backwards: bool = False, **choices) -> Family:
    config = BERTConfig(**(SMALL | dict(maximum_length=20) | choices))
    build = deep_and_shallow(lambda c: Followed(BERT(c, 31, seed=7)), config)
    return Family(name, vocabulary=31, writes=False, backwards=backwards, **build)


def electra(name: str, backwards: bool = False, **choices) -> Family:
    config = ELECTRAConfig(**(SMALL | dict(maximum_length=20, generator_width=8) | choices))
    build = deep_and_shallow(lambda c: Judged(ELECTRA(c, 31, seed=7)), config)
    return Family(name, vocabulary=31, writes=False, backwards=backwards, **build)


def elmo(name: str, **choices) -> Family:
    config = ELMoConfig(**(dict(width=24, layers=2, dropout=0.0) | choices))
    return Family(name, lambda: BothWays(ELMo(config, 31, seed=7)), 31, writes=False, compiles=False)


class Sorted(nn.Module):
    """A classifier of documents, of which the source is the last sentences, with as many classes as there are words."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, source_BM: Tensor, lengths_B: Tensor, target_BL: Tensor) -> Tensor:
        length = target_BL.shape[1]
        sentences_BM = torch.where(source_BM % 5 == 0, EOS, source_BM)  # a mark now and then
        return self.classifier(torch.cat([target_BL, sentences_BM], 1), length + lengths_B)[:, None].expand(-1, length, -1)


def hierarchical(name: str, **choices) -> Family:
    config = HANConfig(**(dict(width=24, dropout=0.0) | choices))
    return Family(name, lambda: Sorted(classifier(config, 31, 31, seed=7)), 31, writes=False, compiles=False)


def hran(name: str, **choices) -> Family:
    """Turns end with the last word, which stands in the source now and then."""
    config = HRANConfig(**(dict(width=24, dropout=0.0) | choices))
    return Family(name, lambda: HRAN(config, 31, 31, seed=7), 31, compiles=False, source_length=12)


def recurrent(name: str, **choices) -> Family:
    config = RecurrentConfig(**(dict(width=24, dropout=0.0) | choices))
    return Family(name, lambda: Recurrent(config, 31, 31, seed=7), 31, compiles=False)


# Compiled backwards: one of each shape of stack and of each mixer.
FAMILIES = [
    transformer("transformer", backwards=True),
    transformer("transformer, pre-norm, gelu", norm_placement="pre", activation="gelu"),
    transformer("transformer, learned positions", position="learned", maximum_length=80),
    transformer("transformer, concatenated positions", join="concat", position_width=8, tie="none"),
    transformer("transformer, window", visibility="window(2)", tie="output"),
    gpt("gpt", backwards=True),
    gpt("gpt, post-norm, sinusoidal, window", norm_placement="post", position="sinusoidal", visibility="window(3)"),
    bert("bert", backwards=True),
    bert("bert, pre-norm, window", norm_placement="pre", visibility="window(3)"),
    bert("roberta", segments=1, first_position=2),
    bert("distilbert", segments=0),
    bert("bert, narrow words", embedding_width=10),
    electra("electra", backwards=True, embedding_width=10),
    electra("electra, embeddings apart", tie_embeddings=False),
    elmo("elmo"),
    transformer("transformer, favor", backwards=True, mixer="favor", features=16, layers=1),
    transformer("transformer, conv", mixer="conv", kernel_width=3, layers=1),
    gpt("gpt, favor", backwards=True, mixer="favor", features=16),
    gpt("gpt, linear-relu", mixer="linear-relu", layers=1),
    gpt("gpt, conv", backwards=True, mixer="conv", kernel_width=3, dilation=2),
    bert("bert, favor", mixer="favor", features=16, layers=1),
    bert("bert, conv", mixer="conv", kernel_width=3, layers=1),
    transformer("transformer, additive", backwards=True, mixer="additive", layers=1),
    hierarchical("hierarchical"),
    hierarchical("hierarchical, transformer", encoder="transformer", layers=2),
    hran("hran, lstm", encoder="lstm", layers=2, tie="none"),
    recurrent("lstm", attention="none", layers=2),
    recurrent("gru, one way, no attention", cell="gru", attention="none", bidirectional=False, tie="none"),
    recurrent("bahdanau, gru", cell="gru", attention="bahdanau"),
    recurrent("luong, window, additive", mixer="additive", visibility="window(3)", cell="gru", tie="output"),
    recurrent("luong, input feeding, dot, window", mixer="dot", visibility="window(2)", input_feeding=True, layers=2),
    captioner("captioner, cnn and lstm", mixer="additive"),
    captioner("captioner, patches", encoder="patches", decoder="transformer", heads=3, feedforward=40, norm_placement="pre"),
]
SPARSE = [
    transformer("transformer, bigbird", backwards=True, visibility="bigbird(2, 3, 2, 1)", layers=1),
    gpt("gpt, bigbird", visibility="bigbird(2, 3, 2, 1)", layers=1),
    bert("bert, bigbird", visibility="bigbird(2, 3, 2, 1)", layers=1),
]
FAMILIES += SPARSE
CHECKS = {name: check for name, check in inspect.getmembers(harness, inspect.isfunction) if name.startswith("check_")}


@pytest.mark.parametrize("check", [pytest.param(name, marks=[pytest.mark.slow] * ("compiles" in name)) for name in CHECKS])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_family(family, check, tmp_path):
    if check in harness.OF_WRITING and not family.writes:
        pytest.skip("writes nothing")
    if check == "check_compiles_without_graph_breaks" and not family.compiles:
        pytest.skip("is not compiled")
    if check == "check_saved_and_loaded_is_equal":
        CHECKS[check](family, tmp_path)
    else:
        CHECKS[check](family)


@pytest.fixture
def by_blocks(monkeypatch):
    """However short and dense: the kernels for long texts, on texts that a test has time for."""
    monkeypatch.setitem(dispatch.SHORTEST, "cpu", 1)
    monkeypatch.setitem(dispatch.PAIR, "cpu", {2: 0.5})


OF_SEEING = ("gradients_reach_every_parameter", "future_tokens_change_nothing", "padding_and_batch_change_nothing")


@pytest.mark.parametrize("check", [*OF_SEEING, "cached_decoding_is_the_full_forward"])
@pytest.mark.parametrize("family", SPARSE, ids=lambda f: f.name)
def test_family_by_blocks(family, check, tmp_path, by_blocks):
    """What depends on who sees whom. Compiled stacks over blocks are in tests/model/sparse/test_cpu.py."""
    test_family(family, f"check_{check}", tmp_path)

"""What `import regard` offers: loading, training, settings for one call, models and parts in a plain PyTorch loop."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import regard
from regard import attention, models
from regard.commands.loaded import LoadedModel, assignments
from regard.core.errors import UserError
from tests.command import tiny, trained

TEXT = "the cat sees the dog ."
SHORT = {"train.steps": 2, "train.warmup": 1, "train.validate_every": 2, "train.checkpoint_every": 2}


def test_every_name_that_is_offered_is_there_and_documented() -> None:
    for name in regard.__all__:
        found = getattr(regard, name)
        assert name in dir(regard)
        assert name in ("__version__", "lens") or found.__doc__, name
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'"):
        regard.nothing  # noqa: B018


def test_importing_regard_imports_neither_torch_nor_much_of_ours() -> None:
    script = "import sys, regard; print('torch' in sys.modules, len([m for m in sys.modules if m.startswith('regard')]))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    torch_too, ours = ran.stdout.split()
    assert torch_too == "False"
    assert int(ours) <= 5


def test_training_returns_what_loading_does(tmp_path: Path) -> None:
    made = regard.train(str(tiny()), SHORT, out=tmp_path / "run", device="cpu", verbose=False)
    again = regard.load(tmp_path / "run", "cpu")
    assert isinstance(made, LoadedModel)
    assert made(TEXT) == again(TEXT)
    assert made([TEXT, TEXT]) == [made(TEXT)] * 2


def test_training_takes_settings_by_section(tmp_path: Path) -> None:
    made = regard.train(
        str(tiny()), SHORT, out=tmp_path / "run", device="cpu", verbose=False, model={"width": 8}, decode={"beam": 3}
    )
    assert made.model.config.width == 8
    assert made.decode.beam == 3


def test_settings_of_python_are_those_of_the_command_line() -> None:
    given = assignments({"train.steps": 3, "train.compile": False, "data.train": ["a.en", "a.fr"]}, {"model": {"width": 8}})
    assert given == ["train.steps=3", "train.compile=false", "data.train=a.en,a.fr", "model.width=8"]
    with pytest.raises(UserError, match=r"not a section of settings"):
        assignments(None, {"steps": 3})  # type: ignore[dict-item]
    with pytest.raises(UserError, match=r"did you mean 'train\.steps'"):
        regard.train(str(tiny()), {"train.setps": 3}, out="none")


def test_a_call_takes_search_settings_for_itself_alone() -> None:
    translator = regard.load(trained(), "cpu")
    before = translator.decode
    assert translator(TEXT, search="greedy") == regard.load(trained(), "cpu", {"decode.search": "greedy"})(TEXT)
    assert translator(TEXT, beam=8) == regard.load(trained(), "cpu", {"decode.beam": 8})(TEXT)
    assert translator.decode is before
    with pytest.raises(UserError, match=r"decode.baem is not a setting.*did you mean 'decode\.beam'"):
        translator(TEXT, baem=8)
    with pytest.raises(UserError, match=r"decode.beam is 0"):
        translator(TEXT, beam=0)
    with pytest.raises(UserError, match=r"open it again"):
        translator(TEXT, weights="int8")


def test_a_loaded_model_is_shown_without_opening_it_again() -> None:
    translator = regard.load(trained(), "cpu")
    assert translator.show("heads", TEXT).lines() == regard.show("heads", str(trained()), TEXT, device="cpu").lines()
    assert regard.show("heads", translator, TEXT).lines() == translator.show("heads", TEXT).lines()
    assert "Translator of" in repr(translator)
    assert {"evaluate", "show"} <= set(dir(translator))
    with pytest.raises(AttributeError):
        translator.nothing  # noqa: B018


def test_a_probe_records_a_call() -> None:
    translator = regard.load(trained(), "cpu")
    with regard.probe(translator.model) as seen:
        translator(TEXT)
    assert seen["decoder.0.cross"].weights(heads=[0]).sum(-1).allclose(torch.ones(()))


@pytest.mark.parametrize("name", models.families())
def test_every_family_is_built_and_run(name: str) -> None:
    family = models.find(name)
    model = models.build(name, vocabulary=20, target_vocabulary=20, **SMALL.get(name, SIZES))
    with torch.no_grad():
        model.eval()(*family.example(models.config(name, **SMALL.get(name, SIZES)), models.Sizes(vocabulary=20), 2, 6))


SIZES = {"width": 16, "heads": 2, "layers": 1, "feedforward": 32}
SMALL = {
    "recurrent": {"width": 16},
    "elmo": {"width": 16},
    "word2vec": {"width": 16},
    "han": {"width": 16},
    "hran": {"width": 16},
    "electra": {**SIZES, "generator_width": 16},
    "captioner": {"width": 16, "image_size": 16},
    "convnet": {"width": 32},
    "dlinear": {},
    "perceiver": {"width": 16, "heads": 2, "layers": 1, "latents": 4, "image_size": 16},
}


def test_a_family_that_is_not_there_and_a_wrong_setting() -> None:
    with pytest.raises(UserError, match=r"no family 'gtp'.*did you mean 'gpt'"):
        models.build("gtp", 10)
    with pytest.raises(UserError, match=r"model.widht is not a setting"):
        models.build("gpt", 10, widht=8)


def test_a_model_learns_in_a_plain_pytorch_loop() -> None:
    torch.manual_seed(0)
    model = models.build("gpt", 12, width=16, heads=2, layers=1, feedforward=32, maximum_length=16, dropout=0.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    ids_BL = torch.arange(16).remainder(5).expand(4, 16)  # 0 1 2 3 4 0 1 2 ...
    for _ in range(60):
        logits_BLV = model(ids_BL[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits_BLV.flatten(0, 1), ids_BL[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


def test_the_parts_work_in_a_module_of_ones_own() -> None:
    """Attention over a window is attention over all with a mask, by PyTorch's own function."""
    torch.manual_seed(0)
    config = attention.BlockConfig(width=16, heads=2, feedforward=32, dropout=0.0)
    stack = attention.Stack(config, layers=1, name="mine").eval()
    attention.initialise(stack, seed=1)
    view = (attention.causal & attention.window(2)).over(8, 8, device=torch.device("cpu"))
    with attention.probe(stack) as seen, torch.no_grad():
        assert stack(torch.randn(1, 8, 16), view).shape == (1, 8, 16)
    weights_BHLM = seen["mine.0.self"].weights()
    distance_LM = torch.arange(8)[:, None] - torch.arange(8)
    assert (weights_BHLM[..., (distance_LM < 0) | (distance_LM > 2)] == 0).all()
    assert weights_BHLM.sum(-1).allclose(torch.ones(()))

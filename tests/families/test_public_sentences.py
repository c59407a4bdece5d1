"""Folders of sentence-transformers: what their small files say about vectors, as old and new versions write it, and misprints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.core.errors import UserError
from regard.interop.huggingface.sentence_transformers import Sentences, read_sentences, written_sentences
from regard.model.heads import VectorsConfig

OLD = "sentence_transformers.models."
NEW = ("sentence_transformers.base.modules.transformer.", "sentence_transformers.sentence_transformer.modules.pooling.")


def steps(*names: str) -> list[dict[str, Any]]:
    return [{"idx": n, "name": str(n), "path": f"{n}_{name}", "type": OLD + name} for n, name in enumerate(names)]


def folder_with(folder: Path, modules: Any, pooling: Any = None, cutting: Any = None, prompts: Any = None) -> Path:
    (folder / "1_Pooling").mkdir()
    files = {
        "modules.json": modules,
        "1_Pooling/config.json": pooling,
        "sentence_bert_config.json": cutting,
        "config_sentence_transformers.json": prompts,
    }
    for name, content in files.items():
        if content is not None:
            (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


BOTH, ALL = steps("Transformer", "Pooling"), steps("Transformer", "Pooling", "Normalize")
MEAN = {"word_embedding_dimension": 384, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
FIRST = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": False}


@pytest.mark.parametrize(
    ("modules", "pooling", "cutting", "expected"),
    [
        (ALL, MEAN, {"max_seq_length": 256, "do_lower_case": False}, ("mean", True, 256)),
        (BOTH, FIRST, {"max_seq_length": None}, ("cls", False, 0)),
        (BOTH, {"embedding_dimension": 384, "pooling_mode": "cls", "include_prompt": True}, None, ("cls", False, 0)),
        (ALL, {"pooling_mode": "mean"}, {}, ("mean", True, 0)),
        ([{"type": f"{NEW[0]}Transformer"}, {"type": f"{NEW[1]}Pooling"}], MEAN, None, ("mean", False, 0)),
    ],
)
def test_what_the_files_say(modules: Any, pooling: Any, cutting: Any, expected: tuple[str, bool, int], tmp_path: Path) -> None:
    found = read_sentences(folder_with(tmp_path, modules, pooling, cutting, {"__version__": {}, "default_prompt_name": None}))
    assert found is not None
    assert (found.vectors.pooling, found.vectors.normalised, found.maximum_tokens) == expected


def test_a_folder_of_transformers_says_nothing(tmp_path: Path) -> None:
    assert read_sentences(tmp_path) is None


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_what_is_written_is_read(pooling: Any, normalised: bool, tmp_path: Path) -> None:
    vectors = VectorsConfig(pooling=pooling, normalised=normalised)
    for name, text in written_sentences(vectors, 24, 99).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert read_sentences(tmp_path) == Sentences(vectors, 99)
    modules = json.loads((tmp_path / "modules.json").read_text())
    assert [step["path"] for step in modules] == ["", "1_Pooling", "2_Normalize"][: len(modules)]


@pytest.mark.parametrize(
    ("modules", "pooling", "cutting", "prompts", "told"),
    [
        (steps("Transformer", "Pooling", "Dense"), MEAN, None, None, "has a step Dense, which this version"),
        (steps("Pooling", "Transformer"), MEAN, None, None, "in this order"),
        (steps("Pooling"), MEAN, None, None, "in this order"),
        (steps("Transformer"), MEAN, None, None, "in this order"),
        (steps("Transformer", "Pooling", "Pooling"), MEAN, None, None, "in this order"),
        ([], MEAN, None, None, "does not list Transformer"),
        ({"type": "Transformer"}, MEAN, None, None, "does not list Transformer"),
        ([{}], MEAN, None, None, "has a step None"),
        ("{", MEAN, None, None, "cannot be read as JSON"),
        (BOTH, None, None, None, "pools by nothing"),
        (BOTH, "[]", None, None, "holds a list; a JSON object"),
        (BOTH, {**MEAN, "pooling_mode_cls_token": True}, None, None, "pools by cls_token and mean_tokens"),
        (BOTH, {"pooling_mode_max_tokens": True}, None, None, "pools by max_tokens"),
        (BOTH, {"pooling_mode": "weightedmean"}, None, None, "pools by weightedmean"),
        (BOTH, {"pooling_mode": ["cls", "mean"]}, None, None, "pools by cls and mean"),
        (BOTH, {"pooling_mode": 3}, None, None, "pools by 3"),
        (BOTH, MEAN, {"do_lower_case": True}, None, "do_lower_case=true, which would change texts"),
        (BOTH, MEAN, {"max_seq_length": "many"}, None, "max_seq_length=many"),
        (BOTH, MEAN, {"max_seq_length": -1}, None, "max_seq_length=-1"),
        (BOTH, MEAN, None, {"default_prompt_name": "query"}, 'default_prompt_name="query"'),
    ],
)
def test_what_would_give_other_vectors_is_refused(
    modules: Any, pooling: Any, cutting: Any, prompts: Any, told: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as refusal:
        read_sentences(folder_with(tmp_path, modules, pooling, cutting, prompts))
    assert told in str(refusal.value)
    assert "\n" not in str(refusal.value)

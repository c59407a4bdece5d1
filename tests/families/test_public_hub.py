"""Names on the hub: which are folders, what is asked for, and a sentence for each way not to get it. No network is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import errors

from regard.core.errors import UserError
from regard.interop.huggingface import read_public
from regard.interop.huggingface.hub import local_folder
from tests.families.public_folder import export, small_gpt

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Stands in for the download: keeps what was asked for, and answers with a folder or a failure."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Path | Exception) -> None:
        self.answer = answer
        self.asked: list[tuple[str, dict[str, Any]]] = []
        monkeypatch.setattr(huggingface_hub, "snapshot_download", self)

    def __call__(self, name: str, **options: Any) -> str:
        self.asked.append((name, options))
        if isinstance(self.answer, Exception):
            raise self.answer
        return str(self.answer)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return export(tmp_path / "model", small_gpt())


def test_a_folder_that_is_there_is_taken_and_nobody_is_asked(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub(monkeypatch, AssertionError())
    assert local_folder(str(model)) == model
    monkeypatch.chdir(model.parent)
    assert local_folder("model") == Path("model")
    monkeypatch.setenv("HOME", str(model.parent))
    assert local_folder("~/model") == model
    (model.parent / "gpt2@main").mkdir()
    assert local_folder("gpt2@main") == Path("gpt2@main")
    assert not hub.asked


@pytest.mark.parametrize(
    ("name", "repository", "revision"),
    [
        ("gpt2", "gpt2", None),
        ("openai-community/gpt2", "openai-community/gpt2", None),
        ("owner/name.v1@main", "owner/name.v1", "main"),
        (f"gpt2@{COMMIT}", "gpt2", COMMIT),
        ("owner/name@refs/pr/3", "owner/name", "refs/pr/3"),
    ],
)
def test_what_is_asked_of_the_hub(
    model: Path, monkeypatch: pytest.MonkeyPatch, name: str, repository: str, revision: str | None
) -> None:
    hub = Hub(monkeypatch, model)
    assert local_folder(name) == model
    ((asked, options),) = hub.asked
    assert (asked, options["revision"]) == (repository, revision)
    wanted = ["config.json", "model.safetensors", "model.safetensors.index.json", "merges.txt", "vocab.json", "vocab.bpe"]
    wanted += ["vocab.txt", "modules.json", "sentence_bert_config.json", "1_Pooling/config.json"]
    others = ["pytorch_model.bin", "tf_model.h5", "README.md", "own_code.py", "onnx/config.json", "onnx/model.safetensors"]
    others += ["openvino/config.json", "2_Dense/model.safetensors", "2_Dense/config.json"]
    patterns = dict(allow_patterns=options["allow_patterns"], ignore_patterns=options["ignore_patterns"])
    fetched = huggingface_hub.utils.filter_repo_objects([*wanted, *others], **patterns)
    assert list(fetched) == wanted


@pytest.mark.parametrize("name", ["", ".", "/no/such/folder", "./model", "a/b/c", "../x", "two words", "~/none", "@main", "a//b"])
def test_what_can_be_no_name_is_a_missing_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    hub = Hub(monkeypatch, AssertionError())
    if name in ("", "."):
        assert local_folder(name) == Path()  # here
        return
    with pytest.raises(UserError, match="There is no folder"):
        local_folder(name)
    assert not hub.asked


def test_a_file_is_not_a_folder(model: Path) -> None:
    with pytest.raises(UserError, match="is a file; give the folder"):
        local_folder(str(model / "config.json"))


def http_error(kind: Any, status: int) -> Exception:
    """As the library makes them, of the response that it got."""
    transport = __import__(errors.HTTPError.__module__.split(".")[0])
    response = transport.Response(status, request=transport.Request("GET", "http://nowhere.invalid"))
    failure: Exception = kind("many\nlines", response=response)
    return failure


@pytest.mark.parametrize(
    ("failure", "named"),
    [
        (lambda: http_error(errors.GatedRepoError, 403), "is gated"),
        (lambda: http_error(errors.RepositoryNotFoundError, 401), "if it is private, log in"),
        (lambda: http_error(errors.RevisionNotFoundError, 404), "no branch, tag or commit 'v9'"),
        (lambda: http_error(errors.HfHubHTTPError, 500), "could not be downloaded"),
        (lambda: errors.LocalEntryNotFoundError("offline\nand more"), "cannot be reached"),
        (lambda: errors.HFValidationError("bad"), "neither a folder here nor a name"),
        (lambda: errors.HTTPError("proxy"), "could not be downloaded"),
        (lambda: OSError(28, "No space left on device"), "No space left on device"),
    ],
)
def test_each_failure_is_a_sentence(monkeypatch: pytest.MonkeyPatch, failure: Any, named: str) -> None:
    Hub(monkeypatch, failure())
    with pytest.raises(UserError) as caught:
        local_folder("owner/name@v9")
    assert named in str(caught.value)
    assert "owner/name" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_without_safetensors_can_be_converted(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (model / "model.safetensors").unlink()
    Hub(monkeypatch, model)
    with pytest.raises(UserError, match=r"import AutoModelForCausalLM as Model; Model\.from_pretrained\('owner/name'\)"):
        local_folder("owner/name")


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "BertForMaskedLM"),
        ({"model_type": "distilbert"}, "AutoModel"),
        ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, "AutoModelForCausalLM"),
        ({"model_type": "unheard-of", "architectures": ["Model"]}, "AutoModel"),
        ({}, "AutoModel"),
        (None, "AutoModel"),
    ],
)
def test_it_is_converted_by_the_class_that_it_is_of(
    config: dict[str, Any] | None, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another class would leave its head behind, or draw a new one."""
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    Hub(monkeypatch, tmp_path)
    with pytest.raises(UserError, match=rf"import {named} as Model; "):
        local_folder("owner/name")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's cache with one model in it, and no way out."""
    repository = tmp_path / "hub" / "models--owner--small"
    (repository / "snapshots").mkdir(parents=True)
    (repository / "refs").mkdir()
    export(repository / "snapshots" / COMMIT, small_gpt())
    (repository / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return repository / "snapshots" / COMMIT


@pytest.mark.parametrize("name", ["owner/small", "owner/small@main", f"owner/small@{COMMIT}"])
def test_offline_what_is_in_the_cache_is_found(cache: Path, name: str) -> None:
    assert local_folder(name) == cache
    assert read_public(local_folder(name)).config.width == 24


@pytest.mark.parametrize("name", ["owner/large", "owner/small@v2", "gpt2"])
def test_offline_what_is_not_in_the_cache_is_a_sentence(cache: Path, name: str) -> None:
    with pytest.raises(UserError, match="cannot be reached"):
        local_folder(name)

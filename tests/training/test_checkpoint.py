"""What is saved comes back exactly; what is damaged is seen, said and passed over; what is refused harms nothing."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from regard.core.errors import UserError
from regard.training.checkpoint import Checkpoint, NonFinite, Store
from regard.training.checkpoint_files import canonical

FILES = ("MANIFEST.json", "state.json", "model.safetensors", "optimizer.safetensors")


class Told(list[str]):
    """A store's `say` that remembers."""

    def __call__(self, line: str) -> None:
        self.append(line)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def store(tmp_path: Path, told: Told) -> Store:
    return Store(tmp_path / "runs" / "first" / "checkpoints", told)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fsync is good for is tested in test_durable."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def save(store: Store, step: int, kind: str = "step") -> Path:
    tensors = {"model": {"w": torch.full((50,), float(step))}, "optimizer": {"0.exp_avg": torch.arange(9.0)}}
    return store.save(kind, step, tensors, {"step": step})


def found(store: Store, *kinds: str) -> Checkpoint:
    checkpoint = store.newest(*kinds)
    assert checkpoint is not None
    return checkpoint


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---------------------------------------------------------------------------------------------- what comes back


def test_layout_is_readable_without_us(store: Store) -> None:
    path = save(store, 400)
    assert path == store.folder / "step-00000400"
    assert sorted(file.name for file in path.iterdir()) == sorted(FILES)
    assert torch.equal(safetensors.torch.load_file(path / "model.safetensors")["w"], torch.full((50,), 400.0))
    manifest = json.loads((path / "MANIFEST.json").read_text())
    assert (manifest["kind"], manifest["step"], manifest["format"]) == ("step", 400, 1)
    assert manifest["torch"] == torch.__version__
    assert manifest["files"].keys() == set(FILES) - {"MANIFEST.json"}


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.int64, torch.uint8],
)
def test_every_dtype_and_layout(store: Store, dtype: torch.dtype) -> None:
    base = torch.arange(24).reshape(4, 6).to(dtype)
    given_ = {"whole": base, "turned": base.t(), "rows": base[1:3], "columns": base[:, ::2], "flat": base.view(-1)}
    given_ |= {"one": base[0, 0], "none": base[:0], "none too": base[:0], "parallel": base[:1].expand(5, 6)}
    store.save("step", 1, {"model": given_, "empty": {}}, {})
    loaded = found(store, "step").tensors("model")
    assert found(store, "step").tensors("empty") == {}
    assert loaded.keys() == given_.keys()
    for name, tensor in given_.items():
        assert loaded[name].dtype == dtype
        assert torch.equal(loaded[name].to(torch.complex128), tensor.to(torch.complex128))


def test_tied_weights_keep_both_names_and_stay_tied(store: Store) -> None:
    embed, out = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
    out.weight = embed.weight
    net = nn.ModuleDict({"embed": embed, "out": out})
    path = store.save("best", 3, {"model": net.state_dict()}, {})
    loaded = found(store, "best").tensors("model")
    assert loaded.keys() == {"embed.weight", "out.weight"}
    assert torch.equal(loaded["out.weight"], embed.weight)
    assert loaded["out.weight"].data_ptr() == loaded["embed.weight"].data_ptr()
    assert (path / "model.safetensors").stat().st_size < 1.5 * 10 * 4 * 4 + 200  # written once

    fresh = nn.Embedding(10, 4)
    fresh_out = nn.Linear(4, 10, bias=False)
    fresh_out.weight = fresh.weight
    # safetensors' own loader reads our note of the tie
    safetensors.torch.load_model(nn.ModuleDict({"embed": fresh, "out": fresh_out}), path / "model.safetensors")
    assert torch.equal(fresh.weight, embed.weight)


def test_loaded_tensors_own_their_memory(store: Store) -> None:
    path = save(store, 1)
    tensors = found(store, "step").tensors("model")
    with (path / "model.safetensors").open("r+b") as file:
        file.write(b"\xff" * (path / "model.safetensors").stat().st_size)
    assert torch.equal(tensors["w"], torch.full((50,), 1.0))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(state=st.dictionaries(st.text(), json_values, max_size=4))
def test_json_state_comes_back_exactly(store: Store, state: dict[str, Any]) -> None:
    store.save("step", 1, {}, state)
    back = found(store, "step").state
    assert back == state
    assert canonical(back) == canonical(state)  # also tells 1 from 1.0 and True, and 0.0 from -0.0


def test_newest_goes_by_step_then_by_the_order_of_kinds(store: Store) -> None:
    assert store.newest("step") is None
    for kind, step in (("step", 900), ("step", 1000), ("best", 1000), ("average", 123_456_789)):
        save(store, step, kind)
    assert (found(store, "step").kind, found(store, "step").step) == ("step", 1000)
    assert found(store, "best", "step").kind == "best"
    assert found(store, "step", "best").kind == "step"
    assert found(store).kind == "average"
    assert [checkpoint.step for checkpoint in store.all("step")] == [900, 1000]
    with pytest.raises(UserError, match=r"no tensors called 'modle' \(known: model, optimizer\); did you mean 'model'"):
        found(store, "step").tensors("modle")


def test_saving_again_replaces(store: Store) -> None:
    save(store, 5)
    store.save("step", 5, {"model": {"w": torch.zeros(2)}}, {"again": True})
    assert found(store, "step").state == {"again": True}
    assert os.listdir(store.folder) == ["step-00000005"]  # noqa: PTH208


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o002])
def test_file_modes_follow_the_umask(store: Store, umask: int) -> None:
    before = os.umask(umask)
    try:
        path = save(store, 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o777 & ~umask
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o666 & ~umask}


# ---------------------------------------------------------------------------------------------- damage


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def link(path: Path) -> None:
    elsewhere = path.parent.parent / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncate": lambda path: os.truncate(path, path.stat().st_size - 1),
    "grow": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
    "flip": flip,
    "delete": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "link": link,
    "pipe": pipe,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", FILES)
def test_damage_is_said_once_and_passed_over(store: Store, told: Told, file: str, damage: str) -> None:
    save(store, 300)
    DAMAGES[damage](save(store, 400) / file)
    assert found(store, "step").step == 300
    assert found(store, "step").step == 300
    assert [checkpoint.step for checkpoint in store.all("step")] == [300]
    assert len(told) == 1
    assert told[0].startswith(f"checkpoints/step-00000400 is damaged ({file}: ")
    assert told[0].endswith("); using step-00000300 instead.")


def test_the_sentence(store: Store, told: Told) -> None:
    save(store, 300)
    flip(save(store, 400) / "model.safetensors")
    found(store, "step")
    assert told == ["checkpoints/step-00000400 is damaged (model.safetensors: sha256 differs); using step-00000300 instead."]
    flip(store.folder / "step-00000300" / "state.json")
    assert store.newest("step") is None
    assert told[1].endswith("step-00000300 is damaged (state.json: sha256 differs); no other is left.")


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(where=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255), file=st.sampled_from(FILES))
def test_no_changed_byte_anywhere_goes_unseen(store: Store, where: float, mask: int, file: str) -> None:
    path = save(store, 7) / file
    data = bytearray(path.read_bytes())
    data[int(where * len(data))] ^= mask
    path.write_bytes(data)
    assert store.newest("step") is None


def forge(path: Path, **changes: Any) -> None:
    """A manifest whose own seal is right: made by a program, not by accident."""
    body = json.loads((path / "MANIFEST.json").read_text()) | changes
    del body["seal"]
    text = json.dumps(body, sort_keys=True, indent=1) + "\n"
    body["seal"] = hashlib.sha256(text.encode()).hexdigest()
    (path / "MANIFEST.json").write_text(json.dumps(body, sort_keys=True, indent=1) + "\n")


FORGERIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "extra file": (lambda path: (path / "notes.txt").write_text("x"), "notes.txt: not in the manifest"),
    "no JSON": (lambda path: (path / "MANIFEST.json").write_text("{"), "MANIFEST.json: not JSON"),
    "NaN": (lambda path: (path / "MANIFEST.json").write_text('{"files": {}, "format": NaN}'), "not JSON"),
    "deep": (lambda path: (path / "MANIFEST.json").write_text("[" * 100_000), "not JSON"),
    "a list": (lambda path: (path / "MANIFEST.json").write_text("[]"), "not a manifest"),
    "future": (
        lambda path: (path / "MANIFEST.json").write_text('{"files": {}, "format": 2}'),
        "format 2, this version reads 1",
    ),
    "another step": (lambda path: forge(path, step=500), "of another checkpoint"),
    "another kind": (lambda path: forge(path, kind="best"), "of another checkpoint"),
    "a file": (lambda path: (path.rename(path.with_name("x")), path.write_text("")), "not a folder"),
    "a link": (link, "not a folder"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forgeries_are_rejected_with_the_reason(store: Store, told: Told, forgery: str) -> None:
    save(store, 300)
    change, reason = FORGERIES[forgery]
    change(save(store, 400))
    assert found(store, "step").step == 300
    assert reason in told[0]


@pytest.mark.parametrize("name", ["../step-00000300/state.json", "/dev/zero", "a\0b", "..", "", "\ud800", "a/../b"])
@pytest.mark.parametrize("entry", [{"bytes": 0, "sha256": ""}, None, []])
def test_a_manifest_cannot_point_out_of_its_folder(store: Store, told: Told, name: str, entry: Any) -> None:
    save(store, 300)
    forge(save(store, 400), files={name: entry})
    assert found(store, "step").step == 300
    assert any(reason in told[0] for reason in ("a path, not a file name", "missing", "not a plain file"))
    assert told[0].isprintable()


def test_a_forged_file_that_is_not_tensors_is_a_sentence(store: Store) -> None:
    path = save(store, 400)
    (path / "model.safetensors").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    content = (path / "model.safetensors").read_bytes()
    files = json.loads((path / "MANIFEST.json").read_text())["files"]
    files["model.safetensors"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    forge(path, files=files)
    with pytest.raises(UserError, match=r"model\.safetensors cannot be read"):
        found(store, "step").tensors("model")


# ---------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.float8_e5m2])
def test_non_finite_tensors_are_refused(store: Store, bad: float, dtype: torch.dtype) -> None:
    save(store, 300)
    before = snapshot(store.folder)
    values = torch.ones(5)
    values[3] = bad
    with pytest.raises(NonFinite, match=r"optimizer\.0\.exp_avg has 1 of 5 values"):
        store.save("step", 400, {"model": {"w": torch.ones(2)}, "optimizer": {"0.exp_avg": values.to(dtype)}}, {})
    assert snapshot(store.folder) == before


def test_states_json_cannot_hold_are_refused(store: Store) -> None:
    with pytest.raises(NonFinite, match=r"state\.best\.scores\[1\] is nan"):
        store.save("step", 1, {}, {"best": {"scores": [1.0, float("nan")]}})
    with pytest.raises(TypeError, match=r"state\.a has the key 3"):
        store.save("step", 1, {}, {"a": {3: "x"}})
    with pytest.raises(TypeError):
        store.save("step", 1, {}, {"a": torch.ones(1)})
    for kind, step, part in (("../x", 1, "model"), ("step", -1, "model"), ("step", 1, "a/b")):
        with pytest.raises(ValueError):
            store.save(kind, step, {part: {}}, {})
    assert not store.folder.exists()


CURES = {errno.ENOSPC: "Free some space", errno.EACCES: "Make that folder writable", errno.EIO: "Check that disk"}


@pytest.mark.parametrize("code", CURES)
@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.mkdir", "pathlib.Path.rename", "shutil.copymode"])
def test_what_the_disk_refuses_is_a_sentence_and_harms_nothing(
    store: Store, code: int, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store, 300)
    before = snapshot(store.folder)

    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(call, refuse)
        with pytest.raises(UserError) as caught:
            save(store, 400)
    for part in ("step-00000400", str(store.folder), os.strerror(code), CURES[code], "intact"):
        assert part in str(caught.value)
    assert snapshot(store.folder) == before
    save(store, 400)
    assert found(store, "step").step == 400


@contextmanager
def file_limit(size: int) -> Iterator[None]:
    """Over before the test is: what pytest writes to a file is limited too."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_limit_the_system_itself_enforces_inside_safetensors(store: Store) -> None:
    save(store, 300)
    with file_limit(4096), pytest.raises(UserError, match="File too large"):
        store.save("step", 400, {"model": {"w": torch.zeros(10_000)}}, {})
    assert os.listdir(store.folder) == ["step-00000300"]  # noqa: PTH208


# ---------------------------------------------------------------------------------------------- what is kept


def steps(store: Store, kind: str = "step") -> list[int]:
    return [int(path.name.rpartition("-")[2]) for path in sorted(store.folder.glob(f"{kind}-*"))]


def test_keep_deletes_the_oldest_of_its_kind_only(store: Store) -> None:
    for step in (1, 2, 3, 10, 9):
        save(store, step)
    save(store, 1, "best")
    store.keep("step", 2)
    assert (steps(store), steps(store, "best")) == ([9, 10], [1])
    store.keep("step", 5)
    assert steps(store) == [9, 10]
    assert len(list(store.folder.iterdir())) == 3
    with pytest.raises(UserError, match="keep 1 or more"):
        store.keep("step", 0)


def test_keep_never_deletes_the_last_good_one(store: Store) -> None:
    paths = {step: save(store, step) for step in (1, 2, 3, 4)}
    flip(paths[3] / "model.safetensors")
    flip(paths[4] / "state.json")
    store.keep("step", 2)
    assert steps(store) == [2, 3, 4]
    assert found(store, "step").step == 2
    flip(paths[2] / "state.json")
    store.keep("step", 1)
    assert steps(store) == [2, 3, 4]  # nothing good is left, so nothing is deleted


def test_other_things_in_the_folder_are_not_checkpoints(store: Store, told: Told) -> None:
    path = save(store, 3)
    for name in ("step-3", "step-00000x04", "step-", "notes", "-00000009", "step-٠٠٠٠٠٠٠٩"):
        (store.folder / name).mkdir()
    assert found(store, "step").path == path
    store.keep("step", 1)
    assert len(list(store.folder.iterdir())) == 7
    assert told == []

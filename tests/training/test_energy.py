"""A meter counts all that was drawn and nothing else, through wraps, restarts and failures, and says where its figure is from."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from itertools import accumulate, pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.training import energy
from regard.training.energy import WATTS_PER_CORE, AtLimit, Board, BusyCores, Counter, Meter, joined, nvml, planned, rapl

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


def zone(powercap: Path, folder: str, name: str, microjoules: int, span: int = 1_000_000_000) -> Path:
    made = powercap / folder
    made.mkdir(parents=True)
    for file, value in (("name", name), ("energy_uj", microjoules), ("max_energy_range_uj", span)):
        (made / file).write_text(f"{value}\n")
    return made


def burn(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


class FakeNvml:
    """Answers as NVML does: 0, or a code for what went wrong; values through pointers."""

    def __init__(self, millijoules: list[int]) -> None:
        self.millijoules, self.asked_for = millijoules, b""

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes, handle: object) -> int:
        self.asked_for = uuid
        return 0 if uuid == b"GPU-1234" else 6

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: object, value: object) -> int:
        if not self.millijoules:
            return 15
        value._obj.value = self.millijoules.pop(0)
        return 0

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: object, value: object) -> int:
        value._obj.value = 450_000
        return 0


@pytest.fixture
def no_counters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without RAPL, NVML and codecarbon; RAPL zones can be put into the folder."""
    monkeypatch.setattr(energy, "POWERCAP", tmp_path)
    monkeypatch.setattr(energy, "find_spec", lambda name: None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="1234"))
    monkeypatch.setattr(energy.ctypes, "CDLL", lambda name: (_ for _ in ()).throw(OSError(f"{name}: not found")))
    return tmp_path


@settings(max_examples=60)
@given(st.integers(1, 10**12), st.data())
def test_a_register_that_wraps_loses_nothing(span: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, span - 1))
    drawn = data.draw(st.lists(st.integers(0, span - 1), max_size=30))
    register = iter([at % span for at in accumulate([start, *drawn])])
    counter = Counter(lambda: next(register), "measured", per_joule=1e6, span=span)
    read = [counter.joules() for _ in drawn]
    assert read == [total / 1e6 for total in accumulate(drawn)]
    assert all(before <= after for before, after in pairwise(read))


def test_a_driver_that_restarts_counts_on_from_zero() -> None:
    register = iter([5000, 5600, 40, 90])
    counter = Counter(lambda: next(register), "measured by NVML", per_joule=1e3)
    assert [counter.joules() for _ in range(3)] == [0.6, 0.64, 0.69]


def test_a_counter_that_fails_keeps_its_count_and_says_so() -> None:
    register: list[int | OSError] = [100, 300, OSError("device lost"), OSError("device lost"), 500]

    def read() -> int:
        if isinstance(value := register.pop(0), OSError):
            raise value
        return value

    counter = Counter(read, "measured by NVML", per_joule=1)
    assert [counter.joules() for _ in range(3)] == [200, 200, 200]
    assert counter.how == "measured by NVML, in part"
    assert counter.joules() == 400


def test_rapl_adds_packages_and_their_memory_once(tmp_path: Path) -> None:
    package = zone(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    second = zone(tmp_path, "intel-rapl:1", "package-1", 999_000_000)
    memory = zone(tmp_path, "intel-rapl:0:1", "dram", 7_000_000)
    inside = [zone(tmp_path, "intel-rapl:0:0", "core", 1), zone(tmp_path, "intel-rapl:2", "psys", 1)]
    inside += [zone(tmp_path, "intel-rapl-mmio:0", "package-0", 1)]
    found = rapl(tmp_path)
    for where in inside:
        (where / "energy_uj").write_text("900000000\n")
    (package / "energy_uj").write_text("8000000\n")
    (second / "energy_uj").write_text("4000000\n")  # it wrapped
    (memory / "energy_uj").write_text("7500000\n")
    assert sum(counter.joules() for counter in found) == 3 + 5 + 0.5


def test_rapl_that_cannot_be_read_is_no_meter(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="RAPL"):
        rapl(tmp_path / "nowhere")
    zone(tmp_path, "intel-rapl:0", "package-0", 0)
    with pytest.raises(OSError, match="RAPL"):
        rapl(tmp_path)  # a register that stands at zero, as in some virtual machines
    (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
    with pytest.raises(OSError):
        rapl(tmp_path)


def test_nvml_is_asked_for_the_right_board_in_its_own_units(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeNvml([2_000_000, 2_000_500, 2_003_000])
    monkeypatch.setattr(energy.ctypes, "CDLL", lambda name: library)
    counter = nvml(Board("1234"))
    assert library.asked_for == b"GPU-1234"
    assert [counter.joules(), counter.joules(), counter.joules()] == [0.5, 3.0, 3.0]
    assert counter.how == "measured by NVML, in part"
    assert Board("1234").watts_allowed() == 450
    with pytest.raises(OSError, match="nvmlDeviceGetHandleByUUID answered 6"):
        Board("another")
    monkeypatch.setattr(energy.ctypes, "CDLL", lambda name: SimpleNamespace())
    with pytest.raises(OSError, match="nvmlInit_v2"):
        Board("1234")


def test_no_driver_is_an_os_error() -> None:
    with pytest.raises(OSError):
        Board("1234", library="libthere-is-no-such-library.so.1")


def test_busy_cores_draw_and_idle_ones_do_not() -> None:
    meter, before = BusyCores(), resource.getrusage(resource.RUSAGE_SELF)
    burn(0.15)
    after = resource.getrusage(resource.RUSAGE_SELF)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert meter.joules() == pytest.approx(WATTS_PER_CORE * busy, abs=0.05 * WATTS_PER_CORE)
    idle = BusyCores()
    time.sleep(0.3)
    assert idle.joules() < 0.1 * WATTS_PER_CORE


def test_children_are_counted_when_they_are_done() -> None:
    meter = BusyCores()
    code = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-S", "-c", code], check=True)
    assert meter.joules() >= 0.28 * WATTS_PER_CORE


def test_the_best_meter_there_is(no_counters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Meter.of(CPU).how == "estimated: 12 W a busy core"
    assert Meter.of(CUDA).how == "estimated: 12 W a busy core + estimated: 300 W a GPU"
    zone(no_counters, "intel-rapl:0", "package-0", 5)
    zone(no_counters, "intel-rapl:1", "package-1", 5)
    assert Meter.of(CPU).how == "measured by RAPL"
    monkeypatch.setattr(energy.ctypes, "CDLL", lambda name: FakeNvml([1000, 4000]))
    meter = Meter.of(CUDA)
    (no_counters / "intel-rapl:0" / "energy_uj").write_text("2000005")
    assert meter.joules() == 3 + 2
    assert meter.how == "measured by RAPL + measured by NVML"


def test_a_board_without_a_counter_is_taken_at_its_limit(no_counters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy.ctypes, "CDLL", lambda name: FakeNvml([]))
    assert Meter.of(CUDA).how == "estimated: 12 W a busy core + estimated: 450 W a GPU"
    assert planned(CUDA) == (462, Meter.of(CUDA).how)
    monkeypatch.setattr(energy.time, "perf_counter", lambda: 7.0)
    limit = AtLimit(450)
    monkeypatch.setattr(energy.time, "perf_counter", lambda: 9.0)
    assert limit.joules() == 450 * 2


def test_of_several_processes_one_counts_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    for name, text in (("name", "package-0"), ("energy_uj", "5"), ("max_energy_range_uj", "100")):
        (zone / name).write_text(text)
    monkeypatch.setattr("regard.training.energy.POWERCAP", tmp_path)
    cpu = torch.device("cpu")
    assert Meter.of(cpu).how == "measured by RAPL"
    assert Meter.of(cpu, counts_machine=False).parts == ()


def test_a_plan_reckons_with_every_thread(no_counters: Path) -> None:
    assert planned(CPU) == (12 * torch.get_num_threads(), "estimated: 12 W a busy core")


class FakeCodeCarbon:
    """Hands its totals to its handlers at each flush, in kWh, and swallows its errors, as the real one does."""

    kwh: list[float]

    def __init__(self, output_handlers: list[energy.CodeCarbon], **settings: object) -> None:
        self.handlers = output_handlers

    def start(self) -> None: ...

    def flush(self) -> None:
        for handler in self.handlers if self.kwh else []:
            handler.out(SimpleNamespace(cpu_energy=self.kwh.pop(0), ram_energy=0.5, gpu_energy=100.0), None)


def test_codecarbon_is_taken_only_if_it_gives_figures(no_counters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODECARBON_TELEMETRY_LEVEL", "disabled")
    monkeypatch.setattr(energy, "find_spec", lambda name: name == "codecarbon")
    monkeypatch.setitem(sys.modules, "codecarbon", SimpleNamespace(OfflineEmissionsTracker=FakeCodeCarbon))
    FakeCodeCarbon.kwh = [1.0, 3.0]
    meter = Meter.of(CPU)
    assert meter.how == "estimated by codecarbon"
    assert meter.joules() == 2 * 3.6e6
    FakeCodeCarbon.kwh = []
    assert Meter.of(CPU).how == "estimated: 12 W a busy core"


REAL = """
import json, socket, sys, time
reached = []
socket.socket.connect = lambda self, address: reached.append(address)
socket.getaddrinfo = lambda *address, **options: reached.append(address) or []
import torch
from regard.training import energy
energy.rapl = lambda folder: (_ for _ in ()).throw(OSError)
meter = energy.Meter.of(torch.device("cpu"))
joules = []
for _ in range(2):
    time.sleep(0.1)
    joules.append(meter.joules())
print(json.dumps([meter.how, joules, reached]))
"""


def test_the_real_codecarbon_is_silent_and_reaches_for_no_network() -> None:
    """In a process of its own: it starts threads, and once it is imported every training would be metered by it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CODECARBON")}
    environment["PYTHONPATH"] = os.pathsep.join([*sys.path, str(Path(sys.prefix) / "codecarbon")])
    ran = subprocess.run([sys.executable, "-c", REAL], capture_output=True, text=True, env=environment)
    assert (ran.returncode, ran.stderr) == (0, "")
    how, (first, second), reached = json.loads(ran.stdout)
    assert how == "estimated by codecarbon"
    assert second > first > 0
    assert reached == []


@settings(max_examples=40)
@given(st.lists(st.lists(st.sampled_from(["measured by NVML", "measured by RAPL", "estimated: 12 W a busy core"]))))
def test_kinds_are_joined_once_each_in_any_parts(parts: list[list[str]]) -> None:
    whole = ""
    for part in parts:
        whole = joined(whole, " + ".join(part))
    kinds = [kind for part in parts for kind in part]
    assert whole.split(" + ") == list(dict.fromkeys(kinds)) or (whole == "" and not kinds)
    assert joined(whole, whole) == whole


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no nvidia-smi to compare with")
def test_nvml_agrees_with_nvidia_smi() -> None:
    query = ["nvidia-smi", "--query-gpu=uuid,power.limit", "--format=csv,noheader,nounits"]
    limits = dict(line.split(", ") for line in subprocess.run(query, capture_output=True, text=True).stdout.splitlines())
    uuid = str(torch.cuda.get_device_properties(CUDA).uuid)
    assert Board(uuid).watts_allowed() == pytest.approx(float(limits[f"GPU-{uuid}"]), rel=0.01)
    meter = nvml(Board(uuid))
    time.sleep(2)
    assert 10 < meter.joules() / 2 < 1.3 * Board(uuid).watts_allowed()

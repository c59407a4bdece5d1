"""Where the time of a greedy step goes: GPT-2 (124M), batch 32, ours and Hugging Face's static cache, by torch's profiler.

    python -m benchmarks.timeline --out FOLDER

FOLDER/timeline.txt has, for each system, seconds of a text, how long the device was busy in it, and its kernels by time;
FOLDER/timeline-SYSTEM.json.gz opens in a browser's trace viewer.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from torch.profiler import ProfilerActivity, profile

from benchmarks import decode_greedy
from benchmarks.steps import CUDA

BATCH, LINES = 32, 40
PROFILED = ("regard", "hugging face, static cache" if CUDA else "hugging face")
LARGEST = 6 << 20  # bytes of a packed trace: what comes back from a lent machine is limited


def timeline(name: str, run: Callable[[], object], folder: Path) -> str:
    """Return what was found of a system, and write its trace."""
    for _ in range(3):
        run()
    began = time.perf_counter()
    run()
    seconds = time.perf_counter() - began
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if CUDA else [])]
    with profile(activities=activities) as seen:
        run()
    averages = seen.key_averages()
    busy = sum(event.self_device_time_total if CUDA else event.self_cpu_time_total for event in averages) / 1e6
    path = folder / f"timeline-{name.replace(', ', '-').replace(' ', '-')}.json"
    seen.export_chrome_trace(str(path))
    packed = gzip.compress(path.read_bytes())
    path.unlink()
    if len(packed) <= LARGEST:
        path.with_suffix(".json.gz").write_bytes(packed)
    table = averages.table(sort_by=f"self_{'cuda' if CUDA else 'cpu'}_time_total", row_limit=LINES, max_name_column_width=90)
    return f"==== {name}: {seconds:.3f} s, of which the device is busy {busy:.3f} s\n{table}\n"


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tiny", action="store_true", help="one text of 4 tokens, to try whether everything runs")
    options = parser.parse_args(arguments)
    batch = 1 if options.tiny else BATCH
    if options.tiny:
        decode_greedy.OUTPUT = 4
    options.out.mkdir(parents=True, exist_ok=True)
    found = ""
    for name, run in decode_greedy.contenders().items():
        if name in PROFILED:
            found += timeline(name, lambda run=run: run(batch), options.out)  # type: ignore[misc]
            (options.out / "timeline.txt").write_text(found, "utf-8")
            print(f"{name}: profiled", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

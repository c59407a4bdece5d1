"""Studio: how soon a person sees something, what it weighs, and what BertViz needs for the same picture.

python -m benchmarks.studio [RUN]      of a run that 'regard demo' made; by default runs/demo

The server runs in a process of its own, the page in a real Chromium; both share the machine with this script. Budgets are for two
cores. Nothing is averaged away: of every time that a person waits, the median and the worst of several are written down.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.measure import Table, versions, write
from benchmarks.peers import bertviz
from benchmarks.studio_server import Served, long_text
from regard.core.errors import UserError
from regard.studio.app import assets

ROUNDS = 9
QUESTIONS = 5000
SENTENCE = (
    "the doctor says that the teacher thinks that the small {} did not cross the wide street because it was too tired today"
)
ANIMALS = ("animal", "cat", "dog", "horse", "bird", "fish", "cow", "mouse", "sheep")
SETTING = (
    "A demo translator (24 heads), a random model of 12 x 12 heads, and one of 6 x 8 heads for 4,096 tokens. Chromium and the "
)
SETTING += "server share two cores. With the 60 ms that the page waits for another letter."
TYPED = """(text) => new Promise((done) => {
  const screen = document.getElementById("screen");
  const field = document.getElementById("text");
  const before = screen.dataset.pass;
  const watch = new MutationObserver(() => {
    if (screen.dataset.pass === before) return;
    watch.disconnect();
    requestAnimationFrame(() => done(performance.now() - began));
  });
  watch.observe(screen, { attributes: true });
  const began = performance.now();
  field.value = text;
  field.dispatchEvent(new InputEvent("input", { bubbles: true }));
})"""


def main() -> None:
    run = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo")
    if not (run / "recipe.toml").is_file():
        raise UserError(f"{run} is no run; make one with 'regard demo', or give another.")
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "assets": _assets,
        "first view": lambda: _in_page(Served("demo", str(run)), _typing),
        "atlas of 144 heads": lambda: _in_page(Served("wide"), _atlas),
        "4,096 tokens": _long,
        "bertviz": bertviz.measured,
        "questions": _questions,
    }
    found: dict[str, Any] = {}
    for name, part in parts.items():
        found[name] = part()
        print(f"{name:<20} {found[name]}", flush=True)
    path = write("studio", title="Studio", setting=SETTING, rows=[], tables=tables(found), versions=versions("bertviz"))
    print(f"written to {path.name}")


def tables(found: dict[str, Any]) -> list[Table]:
    """What people wait for against its budget; and BertViz's whole page of the same size of model beside ours."""
    waits = {
        "first view of 23 words, screen Run": found["first view"]["run"],
        "first view of 23 words, screen Head": found["first view"]["head"],
        "atlas of 144 heads, drawing": found["atlas of 144 heads"]["drawing"],
        "a head of 4,096 tokens, when the pass is done": found["4,096 tokens"]["head"],
    }
    memory, assets = found["4,096 tokens"]["memory_mb"], found["assets"]
    waited = [[what, *(f"{one[key]} ms" for key in ("median_ms", "worst_ms", "budget_ms"))] for what, one in waits.items()]
    waited += [["memory above idle, 4,096 tokens", f"{memory['held']} MB", f"{memory['peak']} MB", f"{memory['budget']} MB"]]
    weighed = f"{assets['bytes'] / 1e3:.0f} kB"
    waited += [["all files of the page", weighed, weighed, f"{assets['budget'] / 1e3:.0f} kB"]]
    pages = found["bertviz"]["pages"]
    beside = [[tokens, f"{page['bytes'] / 1e6:,.1f} MB", f"{page['seconds']:.2f} s"] for tokens, page in pages.items()]
    sizes = f"{found['bertviz']['layers']} layers of {found['bertviz']['heads']} heads"
    asked = ", ".join(f"{count:,} {kind}" for kind, count in found["questions"].items())
    return [
        Table(title="What a person waits for, and what it weighs", columns=["", "median", "worst", "budget"], rows=waited),
        Table(
            title=f"BertViz's page of {sizes}, which also loads scripts from the network; a browser then has to read it. "
            "Studio sends the matrix that is looked at, a byte or four for each weight",
            columns=["text", "page", "made in"],
            rows=beside,
        ),
        Table(title="Questions that no page would ask", columns=["answers"], rows=[[asked]]),
    ]


def _assets() -> dict[str, int]:
    files = assets()
    return {"files": len(files), "bytes": sum(len(body) for body, _ in files.values()), "budget": 200_000}


def _in_page(server: Served, measure: Callable[[Any, str], dict[str, Any]]) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    from tests.lens.test_picture_page import CHROMIUM, QUIET

    with server as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        page = browser.new_page(viewport={"width": 1366, "height": 768})
        page.set_default_timeout(120_000)
        try:
            return measure(page, address)
        finally:
            browser.close()


def _open(page: Any, address: str, screen: str, **state: object) -> None:
    page.goto("about:blank")
    page.goto(f"{address}/#/{screen}?{urlencode(state)}")
    page.wait_for_selector(f"#screen[data-ready={screen}]")


def _told(milliseconds: list[float], budget: int) -> dict[str, float]:
    return {"median_ms": round(statistics.median(milliseconds)), "worst_ms": round(max(milliseconds)), "budget_ms": budget}


def _typing(page: Any, address: str) -> dict[str, Any]:
    """From the last letter typed to the picture of its answer, with the 60 ms that the page waits for another letter."""
    waited: dict[str, Any] = {"words": len(SENTENCE.split())}
    for screen, ending in (("run", ""), ("head", " .")):  # another text each time, or the server would know it already
        _open(page, address, screen, text="the cat")
        times = [page.evaluate(TYPED, SENTENCE.format(animal) + ending) for animal in ANIMALS]
        waited[screen] = _told(times[1:], 300)
    return waited


def _atlas(page: Any, address: str) -> dict[str, Any]:
    times: dict[str, list[float]] = {"drawn": [], "ms": []}
    for n in range(ROUNDS):
        _open(page, address, "atlas", text=f"{n} " + "abcdefghij" * 2 + "ab")
        for key, values in times.items():
            values.append(float(page.evaluate(f"document.getElementById('atlas-canvas').dataset.{key}")))
    return {"drawing": _told(times["drawn"], 100), "with the server's part": _told(times["ms"], 1000)}


def _long() -> dict[str, Any]:
    """The first view of a head when the pass is done, another head, another row; and what the server holds."""
    server = Served("long")

    def measure(page: Any, address: str) -> dict[str, Any]:
        _open(page, address, "head", text="a short text to begin with")
        idle = server.memory()
        began = time.perf_counter()
        text = long_text(4096)
        _open(page, address, "run", text=text)
        forward = time.perf_counter() - began
        times = []
        for head in range(5):
            _open(page, address, "head", text=text, at="decoder.3.self", head=head)
            times.append(float(page.evaluate("document.getElementById('overview').dataset.ms")))
        held, peak = server.memory(), server.peak()
        return {
            "pass and first view": f"{forward:.1f} s",
            "head": _told(times, 1000),
            "memory_mb": {"held": round((held - idle) / 1e6), "peak": round((peak - idle) / 1e6), "budget": 400},
        }

    return _in_page(server, measure)


def _questions() -> dict[str, Any]:
    """Thousands of questions that no page would ask; how many of each kind of answer."""
    from hypothesis import HealthCheck, Phase, given, settings

    from tests.studio.asking import Asker, questions

    asker, met = Asker(), Counter[str]()

    @given(questions())
    @settings(
        max_examples=QUESTIONS, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    def ask(question: tuple[str, str, dict[str, Any], bytes | None]) -> None:
        met[f"{asker.ask(*question) // 100}xx"] += 1

    ask()
    return {"asked": sum(met.values()), **dict(sorted(met.items()))}


if __name__ == "__main__":
    main()

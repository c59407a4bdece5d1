"""The benchmark of servers under load: what is lost or wrong is counted, and a peer is compared with us before it is measured."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import load_clients, serving_load
from benchmarks.load_clients import Found, Load, Request, each_alone
from regard.decode.config import GREEDY
from regard.serve.settings import writer_of
from regard.serve.work import EngineSettings, Generate
from regard.tasks.language_model.predict import TextGenerator
from regard.tasks.registry import open_run
from tests.command import SENTENCES, trained

TEXTS = [f"text {n}" for n in range(5)]
REQUESTS = [Request("/", {"text": text}, lambda content: str(content["text"])) for text in TEXTS]


@contextmanager
def echo(status: int = 200, cut: str = "", refused: str = "") -> Iterator[int]:
    """A server that answers with the text it was sent; it closes the connection at one text and refuses another."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            content = await reader.readexactly(int(head.rpartition(b"Content-Length: ")[2]))
            text = json.loads(content)["text"]
            if text == cut:
                break
            code = 429 if text == refused else status
            writer.write(f"HTTP/1.1 {code} X\r\ncontent-length: {len(content)}\r\n\r\n".encode() + content)
        writer.close()

    loop, ready, ports = asyncio.new_event_loop(), threading.Event(), list[int]()

    async def listen() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()

    def serve() -> None:
        loop.run_until_complete(listen())
        loop.run_forever()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    ready.wait()
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def test_every_request_is_answered_and_memory_is_read_after_each_tenth() -> None:
    seen = list[int]()
    with echo() as port:
        assert each_alone(port, REQUESTS) == TEXTS
        found = Load(port, REQUESTS, TEXTS).run(3, most=40, every=seen.append)
    assert (found.sent, found.answered, found.lost, found.wrong) == (40, 40, 0, 0)
    assert seen == [*range(4, 40, 4)]
    assert found.latencies == sorted(found.latencies)


def test_what_is_cut_off_refused_or_wrong_is_counted() -> None:
    with echo(cut=TEXTS[1], refused=TEXTS[2]) as port:
        found = Load(port, REQUESTS, [*TEXTS[:-1], "another text"]).run(2, most=50)
    assert (found.sent, found.lost, found.wrong, found.answered) == (50, 20, 10, 30)


def test_a_server_that_refuses_everything_is_an_error() -> None:
    with echo(status=500) as port, pytest.raises(RuntimeError, match="answers 500"):
        each_alone(port, REQUESTS)
    with echo(status=500) as port, pytest.raises(RuntimeError, match="8 of 8 requests are lost"):
        Load(port, REQUESTS, TEXTS).run(2, most=8)


def test_answers_count_in_the_window_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(load_clients.time, "perf_counter", lambda: float(next(clock)))
    monkeypatch.setattr(load_clients.time, "process_time", lambda: 0.0)
    with echo() as port:
        found = Load(port, REQUESTS, TEXTS).run(1, seconds=100, warm_up=30)
    assert 30 <= found.answered <= 34 < found.sent <= 45  # a request looks at the clock three times
    assert sum(found.slices) * 25 == pytest.approx(found.answered)


def test_a_row_has_the_ratios_and_bars_of_what_was_measured() -> None:
    def found(answered: int) -> Found:
        return Found(seconds=10.0, answered=answered, slices=[1.0] * 4, latencies=[0.1, 0.2])

    row = serving_load.with_speed(
        {"case": serving_load.TRANSLATOR, "unit": "requests/s", "systems": {}, "ratios": {}, "bars": {}},
        "regard, 1 client",
        found(100),
    )
    assert not row["bars"]
    row = serving_load.with_speed(row, "regard, 64 clients", found(700))
    assert row["ratios"] == {"regard, 64 clients / regard, 1 client": pytest.approx(7.0)}
    assert row["bars"].keys() == row["ratios"].keys()
    assert serving_load.times("a", found(1))["ratios"]["p50 / p99"] == 1.0


def test_ctranslate2_is_compared_and_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [source for source, _ in SENTENCES[:6]]
    monkeypatch.setattr(serving_load, "builtin_rows", lambda *_: [(text,) for text in texts])
    asked = ["--run", str(trained()), "--tiny", "--requests", "20", "--clients", "2"]
    cells = serving_load.main([*asked, "--cells", "translator / CTranslate2, collected"])
    assert serving_load.MEMORY in cells.tables, capsys.readouterr().out
    ((name, requests, lost, wrong, *_),) = cells.tables[serving_load.MEMORY]["rows"]
    assert (requests, lost, wrong) == ("20", "0", "0")
    assert "CTranslate2, collected, 2 clients" in name


def test_gpt2_writes_what_transformers_writes(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    models = serving_load.Models(tmp_path, None, serving_load.Shape(vocabulary=60, width=16, layers=1, heads=2))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(models.gpt2).eval()
    reads, ours = transformers.AutoTokenizer.from_pretrained(models.gpt2), open_run(models.gpt2, "cpu")
    assert isinstance(ours, TextGenerator)
    for request in models.requests[serving_load.GPT2][:3]:
        prompt, tokens = request.body["prompt"], request.body["max_tokens"]
        read = reads(prompt, return_tensors="pt")
        found = theirs.generate(**read, max_new_tokens=tokens, do_sample=False, pad_token_id=0)[0, read["input_ids"].shape[1] :]
        changed = writer_of(ours, Generate(text=prompt, max_tokens=tokens, method=GREEDY), EngineSettings())
        assert isinstance(changed, TextGenerator)
        assert changed.write([prompt])[0][0].text.split() == reads.decode(found, skip_special_tokens=True).split()

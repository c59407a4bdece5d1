"""Faults at a running `regard serve`: clients that leave, read slowly or send no HTTP, SIGTERM under load, killed processes.

`python -m benchmarks.serving_faults [SCALE]`: 1.0, the default, has 1,000 disconnects, 300 half-open connections, 1,000 broken
requests, 64 slow requests beside 1,000 fast ones and 50 stops under load; 0.02 tries it in a minute. The server is a process of
its own, with a small language model and a small translator. A line for each fault says what was sent and what became of it; at
the end the engines must have nothing queued and nothing active, and whatever they accepted must have ended.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.server_process import LONG, resident, started
from tests.command import SENTENCES, trained
from tests.serve.tiny_models import folder, opened

ASK = {"model": "gpt", "prompt": "the cat", "max_tokens": 50, "temperature": 1.0, "n": 4, "stream": True}
SLOW = {"model": "translator", "text": " ".join(["the cat sees the dog ."] * 60), "beam": 8}
FAST = {"model": "translator", "text": SENTENCES[0][0], "beam": 1}


def runs(place: Path) -> list[str]:
    """Copies of two small runs, to be served and replaced."""
    opened("gpt")
    for name, path in (("gpt", folder("gpt")), ("translator", trained())):
        shutil.copytree(path, place / name)
    return [str(place / "gpt"), str(place / "translator")]


def server(names: list[str], *options: str) -> AbstractContextManager[tuple[subprocess.Popen[str], int]]:
    return started([sys.executable, "-m", "regard", "serve", *names, "--quiet", *options])


def raw(body: dict[str, Any], path: str = "/v1/completions") -> bytes:
    content = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


def fine(port: int) -> bool:
    answer = httpx.post(f"http://127.0.0.1:{port}/v1/translate", json=FAST, timeout=LONG)
    return answer.status_code == 200 and bool(answer.json()["outputs"][0])


def disconnects(port: int, count: int) -> str:
    """Clients that leave after the first bytes of a stream."""

    def leave(number: int) -> None:
        with socket.create_connection(("127.0.0.1", port), LONG) as one:
            one.sendall(raw(ASK | {"seed": number}))
            one.recv(64)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(leave, range(count)))
    return f"{count:,} streams left after their first bytes; the server answers: {fine(port)}"


def half_open(port: int, count: int) -> str:
    """Connections that send half of a request, or nothing."""
    sent = (b"", b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nX: ", raw(ASK)[:-5])
    held = [socket.create_connection(("127.0.0.1", port), LONG) for _ in range(count)]
    for number, one in enumerate(held):
        one.sendall(sent[number % 3])
    answered = [fine(port) for _ in range(20)]
    for one in held:
        one.close()
    return f"{count:,} half-open connections; of 20 requests beside them {sum(answered)} were answered"


def slow_readers(port: int, count: int) -> str:
    held = []
    for number in range(count):
        one = socket.create_connection(("127.0.0.1", port), LONG)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        one.sendall(raw(ASK | {"seed": number, "n": 16}))
        held.append(one)
    answered = [fine(port) for _ in range(20)]
    for one in held:
        one.close()
    return f"{count:,} readers that read nothing; of 20 requests beside them {sum(answered)} were answered"


def broken_bodies(port: int, count: int) -> str:
    """Random bytes, cut or changed requests, and bodies that are too large."""
    draw, statuses = random.Random(0), Counter[str]()
    for _ in range(count):
        whole = bytearray(raw(ASK | {"stream": False}))
        kind = draw.randrange(4)
        if kind == 0:
            whole = bytearray(draw.randbytes(draw.randrange(1, 400)) + b"\r\n\r\n")
        elif kind == 1:
            whole[draw.randrange(len(whole))] = draw.randrange(256)
        elif kind == 2:
            whole = whole[: draw.randrange(1, len(whole))]
        else:
            whole = bytearray(
                b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 1000
            )
        with socket.create_connection(("127.0.0.1", port), LONG) as one:
            try:
                one.sendall(whole)
                one.shutdown(socket.SHUT_WR)
                statuses[one.recv(4096)[9:12].decode("latin-1")] += 1
            except ConnectionError:
                statuses["reset"] += 1
    told = ", ".join(f"{status or 'closed'}: {number:,}" for status, number in sorted(statuses.items()))
    return f"{count:,} broken requests: {told}; the server answers: {fine(port)}"


def beside_slow(port: int, slow: int, fast: int) -> str:
    """Times of fast requests alone, and beside slow ones."""
    url = f"http://127.0.0.1:{port}/v1/translate"

    def times(count: int) -> list[float]:
        def ask(client: httpx.Client) -> float:
            began = time.perf_counter()
            assert client.post(url, json=FAST).status_code == 200
            return time.perf_counter() - began

        with ThreadPoolExecutor(8) as pool, httpx.Client(timeout=LONG) as client:
            return sorted(pool.map(lambda _: ask(client), range(count)))

    times(50)
    alone = times(fast)
    with ThreadPoolExecutor(slow) as pool:
        running = [pool.submit(httpx.post, url, json=SLOW, timeout=LONG) for _ in range(slow)]
        together = times(fast)
        wrong = sum(future.result().status_code != 200 for future in running)
    shown = [
        f"p50 {1000 * found[len(found) // 2]:.1f} ms, p99 {1000 * found[int(len(found) * 0.99)]:.1f} ms"
        for found in (alone, together)
    ]
    return f"{fast:,} fast requests alone: {shown[0]}; beside {slow} slow ones: {shown[1]}; slow ones that failed: {wrong}"


def stops(names: list[str], count: int) -> str:
    """SIGTERM under load: a request that was sent on a connection that the server took must be answered."""
    outcomes = Counter[str]()
    for _ in range(count):
        with server(names) as (process, port), ThreadPoolExecutor(16) as pool:
            load = [pool.submit(until_refused, port, n) for n in range(16)]
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            for future in load:
                outcomes += future.result()
    told = ", ".join(f"{name}: {number:,}" for name, number in sorted(outcomes.items()))
    return f"{count} stops under load, all with exit code 0; {told}"


def until_refused(port: int, number: int) -> Counter[str]:
    """One request after the other, each on a connection of its own, until the server accepts no more."""
    found = Counter[str]()
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), LONG) as one:
                one.sendall(raw(FAST | {"seed": number}, "/v1/translate"))
                answer = b""
                while part := one.recv(65536):
                    answer += part
                    if b'"usage"' in answer:
                        break
        except ConnectionRefusedError:
            return found
        except ConnectionError:
            found["reset"] += 1
            continue
        found["answered" if answer.startswith(b"HTTP/1.1 200") and b'"usage"' in answer else "lost"] += 1


def killed(names: list[str]) -> str:
    with server(names, "--workers", "2") as (process, port):
        children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout.split()
        os.kill(int(children[0]), signal.SIGKILL)
        answered = [fine(port) for _ in range(20)]
    return f"one of two processes killed; of 20 requests after it {sum(answered)} were answered"


def replaced(names: list[str], place: Path) -> str:
    """The folder of a run is replaced by another run while it is served."""
    with server(names, "--watch", "1") as (process, port):
        with ThreadPoolExecutor(4) as pool:
            load = [pool.submit(lambda: [fine(port) for _ in range(100)]) for _ in range(4)]
            (place / "translator").rename(place / "old")
            time.sleep(1.5)
            shutil.copytree(place / "old", place / "translator")
            recipe = place / "translator" / "recipe.toml"
            recipe.write_text(recipe.read_text("utf-8").replace("beam = 2", "beam = 3"))
            time.sleep(2.5)
            answered = [one for future in load for one in future.result()]
        process.terminate()
        assert process.stderr is not None
        said = [line for line in process.stderr.read().splitlines() if "newer" in line]
    return f"a run replaced while it was served: {sum(answered)} of {len(answered)} requests answered; {len(said)} reload"


def settled(port: int) -> str:
    """Return the requests that engines still hold after all clients have left."""
    for _ in range(600):
        page = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=LONG).text
        found = Counter[str]()
        for line in page.splitlines():
            if line.startswith("regard_engine_") and "bucket" not in line:
                found[line.removeprefix("regard_engine_").partition("{")[0]] += int(float(line.split()[-1]))
        if not found["queued"] and not found["active"]:
            break
        time.sleep(0.1)
    ended = sum(found[f"{name}_total"] for name in ("finished", "failed", "cancelled", "expired"))
    return (
        f"queued {found['queued']}, active {found['active']}, rows {found['rows']}; accepted {found['accepted_total']:,}, "
        f"ended {ended:,}: finished {found['finished_total']:,}, cancelled {found['cancelled_total']:,}, "
        f"failed {found['failed_total']:,}"
    )


def main() -> None:
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0

    def times(count: int) -> int:
        return max(1, round(count * scale))

    with tempfile.TemporaryDirectory() as folder_name:
        place = Path(folder_name)
        names = runs(place)
        faults: list[Callable[[int], str]] = [
            lambda port: disconnects(port, times(1000)),
            lambda port: half_open(port, times(300)),
            lambda port: slow_readers(port, times(100)),
            lambda port: broken_bodies(port, times(1000)),
            lambda port: beside_slow(port, times(64), times(1000)),
            settled,
        ]
        with server(names) as (process, port):
            before = resident(process.pid)
            for fault in faults:
                print(fault(port), flush=True)
            print(f"memory of the process: {before:.0f} MB before, {resident(process.pid):.0f} MB after", flush=True)
        print(killed(names), flush=True)
        print(replaced(names, place), flush=True)
        print(stops(names, times(50)), flush=True)


if __name__ == "__main__":
    main()

"""The end of a server: whatever it accepted before SIGTERM is answered, nothing else is accepted, and the exit code is 0."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import httpx
import pytest

from regard.serve.limits import Limits
from regard.serve.server import stages_of
from regard.serve.workers import Workers
from tests.serve.served import app_of, events, listening, model_of
from tests.serve.slow_server import Echo

ROOT = Path(__file__).parents[2]
LONG = 120.0


def refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), LONG).close()
    except ConnectionRefusedError:
        return True
    return False


def accepted(port: int) -> int:
    page = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=LONG).text
    return int(float(next(line for line in page.splitlines() if line.startswith("regard_engine_accepted_total{")).split()[-1]))


def test_sigterm_ends_the_server_once_all_accepted_requests_are_answered() -> None:
    script = [sys.executable, "-m", "tests.serve.slow_server"]
    with subprocess.Popen(script, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process, ThreadPoolExecutor(8) as pool:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        url = f"http://127.0.0.1:{port}/v1/completions"
        bodies = [{"prompt": "a b c", "stream": n % 2 == 0} for n in range(6)]
        answers = [pool.submit(httpx.post, url, json=body, timeout=LONG) for body in bodies]
        while accepted(port) < len(bodies):
            sleep(0.01)
        process.send_signal(signal.SIGTERM)
        while not refused(port):
            sleep(0.01)
        process.send_signal(signal.SIGUSR1)
        for body, future in zip(bodies, answers):
            answer = future.result(LONG)
            assert answer.status_code == 200
            texts = [one["choices"][0]["text"] for one in (events(answer.text) if body["stream"] else [answer.json()])]
            assert "".join(texts) == "c b a"
            assert answer.headers["connection"] == "close"
        assert process.stdout.read() == "ended\n"
        assert process.wait(LONG) == 0


def test_a_malformed_request_is_answered_as_json() -> None:
    with listening(app_of(model_of("echo", Echo()))) as port, socket.create_connection(("127.0.0.1", port), LONG) as one:
        one.sendall(b"nonsense\r\n\r\n")
        answer = b""
        while part := one.recv(4096):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["error"]["code"] == "invalid_http"


def test_half_of_the_file_descriptors_are_left_to_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda which: (100, 100))
    assert stages_of(Limits()).connections == 50
    assert stages_of(Limits(connections=10)).connections == 10


@pytest.mark.forks
def test_a_process_that_dies_is_started_again_and_sigterm_ends_all() -> None:
    reading, writing = os.pipe()
    said, saying = os.pipe()

    def work() -> int:
        os.write(writing, f"{os.getpid()}\n".encode())
        signal.pause()
        return 0

    if not (parent := os.fork()):
        code = 99
        try:
            code = Workers(work, 2, lambda line: os.write(saying, f"{line}\n".encode()) and None).run()
        finally:
            os._exit(code)
    with os.fdopen(reading) as pids, os.fdopen(said) as lines:
        first, second = int(pids.readline()), int(pids.readline())
        os.kill(first, signal.SIGKILL)
        third = int(pids.readline())
        assert len({first, second, third}) == 3
        assert lines.readline() == f"serve: process {first} ended with code -9; another is started.\n"
        os.kill(parent, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(parent, 0)[1]) == 0
    for child in (second, third):
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


@pytest.mark.forks
def test_a_server_whose_processes_die_at_once_ends() -> None:
    if not (parent := os.fork()):
        code = 99
        try:
            code = Workers(lambda: 3, 2, lambda line: None).run()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(parent, 0)[1]) == 3

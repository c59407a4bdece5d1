"""Connections that never say what they want: they are closed, honest clients get in, the terminal is quiet, and it all ends."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regard.studio.server import Limits, Watch
from tests.studio.plain_app import hello
from tests.studio.tiny_session import TinyOpening, TinySession, served, serving

HALF = b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
LONG = 600.0  # seconds that only a server which does not answer takes
PATIENT = Limits(connections=20, head=LONG, body=LONG, unread=LONG, grace=0.05)
HASTY = replace(PATIENT, head=0.3, body=0.3, unread=0.3)


def get(port: int, path: str = "/", tries: int = 1) -> int:
    """More than one try for a server in haste, to which a busy machine may look like a client that does not say what it wants."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except ConnectionError:
        if tries == 1:
            raise
        return get(port, path, tries - 1)
    finally:
        connection.close()


@contextmanager
def half_open(port: int, count: int, sent: bytes = HALF) -> Iterator[list[socket.socket]]:
    with ExitStack() as kept:
        found = [kept.enter_context(socket.create_connection(("127.0.0.1", port), timeout=LONG)) for _ in range(count)]
        for one in found:
            one.sendall(sent)
        yield found


def is_closed(one: socket.socket) -> bool:
    """Waits until it is, or much too long."""
    try:
        while one.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def test_more_half_open_connections_than_there_is_room_for_shut_nobody_out() -> None:
    with serving(hello, PATIENT) as port, half_open(port, 100) as sockets:
        assert [get(port) for _ in range(5)] == [200] * 5
        assert all(is_closed(one) for one in sockets[:60])  # those that came first, long before their time was over


@pytest.mark.parametrize(
    "sent",
    [b"", HALF, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc", b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HT"],
    ids=["nothing", "head", "body", "second"],
)
def test_what_is_never_finished_is_closed_in_time(sent: bytes) -> None:
    with serving(hello, HASTY) as port, half_open(port, 3, sent) as sockets:
        assert all(is_closed(one) for one in sockets)
        assert get(port, tries=20) == 200


def test_an_answer_that_is_never_read_is_not_kept_for_ever() -> None:
    request = b"GET /20000000 HTTP/1.1\r\nHost: a\r\n\r\n"
    with serving(hello, replace(HASTY, connections=2)) as port, half_open(port, 2, request):
        assert get(port, tries=20) == 200  # there was no room but theirs


def test_a_slow_answer_is_waited_for() -> None:
    """Time limits are for clients; a model may take as long as it needs."""
    import asyncio

    async def slow(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await asyncio.sleep(4 * HASTY.head)
        await hello(scope, receive, send)

    with serving(slow, HASTY) as port:
        assert get(port, tries=20) == 200


class CrossKV:
    """A connection as the watch sees it."""

    def __init__(self, address: str, stage: str) -> None:
        self.client, self.stage, self.cycle, self.transport, self.aborted = (address, 1), stage, None, self, False

    def abort(self) -> None:
        self.aborted = True


def test_the_client_that_has_most_connections_makes_room_and_no_answer_is_cut_off() -> None:
    honest, busy = CrossKV("10.0.0.1", "head"), CrossKV("10.0.0.2", "answering")
    crowd = [CrossKV("10.0.0.2", "head") for _ in range(3)]
    connections: list[Any] = [honest, busy]
    watch = Watch(connections, Limits(head=10, grace=0.2))
    watch.close_overdue(0.0)
    connections += crowd
    assert not watch.make_room(0.1)  # nobody has had the time to say what it wants
    assert watch.make_room(1.0)
    assert [one.aborted for one in crowd].count(True) == 1
    assert not honest.aborted
    watch.close_overdue(11.0)
    assert all(one.aborted for one in (honest, *crowd))
    assert not busy.aborted


def test_the_bound_follows_from_the_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, expected in ((512, 256), (1 << 20, 512), (-1, 512), (64, 32)):
        monkeypatch.setattr("resource.getrlimit", lambda _, soft=soft: (soft, soft))
        assert Limits.of_this_process().connections == expected


@pytest.mark.parametrize(
    "sent",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: upgrade, close\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: evil\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",  # nonsense while it is being answered
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 70_000,
    ],
    ids=["nonsense", "no host", "websocket", "chunk", "long head"],
)
def test_what_is_no_request_is_refused_in_silence(sent: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    with served({"tiny": TinyOpening(TinySession())}, limits=HASTY) as address:
        with half_open(int(address.rpartition(":")[2]), 1, sent) as (one,):
            said = b""
            try:
                while piece := one.recv(1 << 16):
                    said += piece
            except ConnectionError:
                pass
        assert b" 500 " not in said
        assert not said or b"content-security-policy" in said.lower()
    assert capfd.readouterr().err == ""


def test_nobody_can_say_that_it_is_somebody_else() -> None:
    seen: list[str] = []

    async def who(scope: dict[str, Any], receive: Any, send: Any) -> None:
        seen.append(scope.get("client", ("",))[0])
        await hello(scope, receive, send)

    with serving(who) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG)
        connection.request("GET", "/", headers={"X-Forwarded-For": "10.9.8.7"})
        assert connection.getresponse().read() == b"aa"
        connection.close()
    assert seen[-1] == "127.0.0.1"


STUCK = """
import asyncio, resource, socket, sys, threading
from regard.studio.server import Server
from regard.studio.worker import Stopped, Work
from tests.studio.plain_app import hello

work = Work("a test", threads=1, most=4)

async def app(scope, receive, send):
    if scope["type"] == "http" and scope["path"] == "/1":
        try:
            await work.do(lambda: print("stuck", flush=True) or threading.Event().wait())
        except Stopped:
            pass
    if scope["type"] == "lifespan":
        async def heard():
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                work.close()
            return message
        return await hello(scope, heard, send)
    await hello(scope, receive, send)

resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
server = Server(app, listener)
print(listener.getsockname()[1], flush=True)
try:
    server.run()
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_few_descriptors_many_sockets_a_stuck_thread_and_it_still_answers_and_ends(sent: int, code: int) -> None:
    """The whole process: 64 descriptors, 100 half-open connections, a worker that never returns, then a signal."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        with half_open(port, 100):
            assert get(port) == 200
            with half_open(port, 1, b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"):
                assert process.stdout.readline() == "stuck\n"
                assert get(port) == 200
                process.send_signal(sent)
                _, said = process.communicate(timeout=LONG)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, said) == (code, "")

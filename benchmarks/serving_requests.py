"""Requests that schemathesis draws from the OpenAPI document of every task, right and wrong ones, over a port: no server error.

`python -m benchmarks.serving_requests [COUNT]`, by default 30,000 in all. Each model is served alone, by the real engine; every
answer must have a status and a body that the document names. The first that has not ends the run, with the request.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

import httpx

from regard.serve.engine import Engine
from tests.serve.asking import Asked, ask
from tests.serve.served import app_of, listening, model_of
from tests.serve.tiny_models import OPENED, opened

POSTS = {"gpt": 2, "responder": 2, "retriever": 2}  # operations with a body, where a model has more than one
LONG = 120.0


def asked(name: str, count: int) -> Asked:
    """Ask one model about this many requests, as many right as wrong ones."""
    model = model_of(name, opened(name), Engine(opened(name)))
    try:
        with listening(app_of(model)) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LONG) as client:
            return ask(client, max(1, count // (2 * POSTS.get(name, 1))), number=1)
    finally:
        model.engine.close(drain=True)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30_000
    statuses, total = Counter[int](), 0
    for name in OPENED:
        began = time.perf_counter()
        found = asked(name, -(-count // len(OPENED)))
        requests = sum(found.requests.values())
        total += requests
        statuses += found.statuses
        told = ", ".join(f"{status}: {number:,}" for status, number in sorted(found.statuses.items()))
        print(f"{name:<12} {requests:>7,} requests in {time.perf_counter() - began:6.1f} s   {told}", flush=True)
    told = ", ".join(f"{status}: {number:,}" for status, number in sorted(statuses.items()))
    print(f"{'all':<12} {total:>7,} requests   {told}   server errors: {sum(n for s, n in statuses.items() if s >= 500)}")


if __name__ == "__main__":
    main()

"""Parts that the servers of peers share: the application, `/ready`, and uvicorn as `regard serve` runs it."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

import uvicorn
from fastapi import FastAPI


def options() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser()
    found.add_argument("folder", type=Path)
    found.add_argument("--port", type=int, required=True)
    return found


def application() -> FastAPI:
    app = FastAPI()

    @app.get("/ready")
    async def ready() -> dict[str, str]:
        return {"status": "ready"}

    return app


def run(app: FastAPI, port: int) -> None:
    """Serve until SIGTERM, and end as a program that has done its work: uvicorn raises the signal again."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)

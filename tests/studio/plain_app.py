"""An application for tests of the server around it; without torch, which a process takes seconds to load."""

from __future__ import annotations

from typing import Any


async def hello(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers when it has the whole request: with as many bytes as the path says."""
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"a" * int(scope["path"][1:] or 2)})

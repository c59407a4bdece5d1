"""CTranslate2 behind FastAPI, with a folder of `regard export --to ctranslate2`; it answers `/v1/translate` as ours does.

    python -m benchmarks.peers.ctranslate_server FOLDER --port PORT [--collect]

Every request goes to the queue of its `Translator`, whose two workers take them in turn. CTranslate2 makes a batch of the texts
of one call only. With `--collect`, requests that wait are made one call.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ctranslate2
import tokenizers
from pydantic import BaseModel

from benchmarks.peers.served import application, options, run

WORKERS, LARGEST = 2, 64  # workers of one thread each; texts of a call
WAITING = 256  # threads that wait for results


class Body(BaseModel):
    text: str
    beam: int = 4
    length_penalty: float = 0.0


class Queue:
    """Each text is a call of its own, and CTranslate2 queues calls."""

    def __init__(self, translator: Any) -> None:
        self.translator, self.pool = translator, ThreadPoolExecutor(WAITING)

    async def translate(self, tokens: list[str], settings: dict[str, Any]) -> list[str]:
        (waited,) = self.translator.translate_batch([tokens], asynchronous=True, **settings)
        result = await asyncio.get_running_loop().run_in_executor(self.pool, waited.result)
        found: list[str] = result.hypotheses[0]
        return found


class Collected:
    """Texts that wait and have the same settings are one call; as many calls run as there are workers."""

    def __init__(self, translator: Any) -> None:
        self.translator, self.pool = translator, ThreadPoolExecutor(WORKERS)
        self.waiting: list[tuple[list[str], dict[str, Any], asyncio.Future[list[str]]]] = []
        self.running = 0

    async def translate(self, tokens: list[str], settings: dict[str, Any]) -> list[str]:
        future: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self.waiting.append((tokens, settings, future))
        if self.running < WORKERS:
            self.running += 1
            task = asyncio.create_task(self._work())
            task.add_done_callback(lambda done: done.result())
        return await future

    async def _work(self) -> None:
        await asyncio.sleep(0)  # whatever has arrived by now goes along
        while self.waiting:
            settings = self.waiting[0][1]
            taken = [one for one in self.waiting if one[1] == settings][:LARGEST]
            self.waiting = [one for one in self.waiting if all(one is not other for other in taken)]
            texts = [tokens for tokens, _, _ in taken]
            loop = asyncio.get_running_loop()
            results = await loop.run_in_executor(self.pool, lambda: self.translator.translate_batch(texts, **settings))  # noqa: B023
            for (_, _, future), result in zip(taken, results):
                if not future.done():
                    future.set_result(result.hypotheses[0])
        self.running -= 1


def main() -> None:
    parser = options()
    parser.add_argument("--collect", action="store_true")
    typed = parser.parse_args()
    reads = tokenizers.Tokenizer.from_file(str(typed.folder / "tokenizer.json"))
    translator = ctranslate2.Translator(str(typed.folder), device="cpu", inter_threads=WORKERS, intra_threads=1)
    way, app = (Collected if typed.collect else Queue)(translator), application()

    @app.post("/v1/translate")
    async def translate(body: Body) -> dict[str, Any]:
        settings = {"beam_size": body.beam, "length_penalty": body.length_penalty}
        pieces = await way.translate(reads.encode(body.text).tokens, settings)
        ids = [number for piece in pieces if (number := reads.token_to_id(piece)) is not None]
        return {"outputs": [[{"text": reads.decode(ids)}]]}

    run(app, typed.port)


if __name__ == "__main__":
    main()

"""Questions about images: which a run has, files that are handed in, and what a model attends to in one, as maps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from threading import Event
from time import monotonic
from typing import Annotated, Any

import numpy as np
from fastapi import Query, Request
from starlette.responses import Response, StreamingResponse

from regard.core.errors import UserError
from regard.lens.analyses.image_attention import begin_of, image_of, latent_maps, readers, rolled_out, rows_of
from regard.lens.analyses.image_relevance import relevances
from regard.studio.gallery import Gallery
from regard.studio.passes import ModelPass
from regard.studio.routes import Asked, Count, Json, Look, Name, Questions, Studio

Some = Annotated[int, Query(ge=1, le=96)]
Kind = Annotated[str, Query(max_length=400)]
router = Questions()


@router.ask("/api/images", "reads")
def images(studio: Studio, run: Name, first: Count = 0, count: Some = 24, around: Name | None = None) -> dict[str, Any]:
    """Return `count` images from the first on, or the page of the list that has the image `around`."""
    gallery = _gallery(studio, run)
    place = None if around is None else gallery.place(around)
    begin = first if place is None else place // count * count
    shelf, end = gallery.shelf, begin + count
    some = [{"name": name, "caption": label} for name, label in zip(shelf.names[begin:end], shelf.labels[begin:end])]
    return {"images": some, "first": begin, "of": len(shelf.names), "label": around and gallery.label(around)}


@router.ask("/api/image-thumbnails", "reads")
def thumbnails(studio: Studio, run: Name, first: Count = 0, count: Some = 24) -> np.ndarray:
    return _gallery(studio, run).thumbnails(first, count)


@router.ask("/api/image", "reads")
def image(studio: Studio, run: Name, name: Name) -> np.ndarray:
    return _gallery(studio, run).picture(name).shown_YXC


@router.post("/api/image")
async def handed_in(request: Request, run: Name, file: Annotated[str, Query(max_length=400)] = "this file") -> Response:
    studio, content = request.app.state.studio, await request.body()
    return Json({"name": await studio.reads.do(lambda: _gallery(studio, run).take(content, file or "this file"))})


def _gallery(studio: Studio, run: str) -> Gallery:
    found = studio.runs.session(run).gallery
    if found is None:
        raise UserError(f"{run} reads text, not images; give it a text.")
    return found


# --- images that are drawn --------------------------------------------------------------------------------------------------
PAUSE = 0.03  # seconds between two frames
COUNT = 4  # bytes of a frame that say how many pixels are there, little-endian; 2^32 - 1: the name of the image follows
LAST = 2**32 - 1


class Left(Exception):
    """The page that asked for a drawing is gone."""


@router.get("/api/draw")
async def draw(request: Request, run: Name, text: Kind = "", image: Kind = "", number: Count = 0) -> Response:
    """Stream an image as it is drawn: frames of a count of pixels and the whole image, then the name by which it is kept."""
    studio: Studio = request.app.state.studio
    loop, frames, gone = asyncio.get_running_loop(), asyncio.Queue[bytes | None](), Event()

    def job() -> str:
        session, sent = studio.runs.session(run), [0.0]

        def seen(image_YXC: np.ndarray, count: int) -> None:
            if gone.is_set():
                raise Left
            if (now := monotonic()) - sent[0] >= PAUSE:
                sent[0] = now
                loop.call_soon_threadsafe(frames.put_nowait, count.to_bytes(COUNT, "little") + _shown(image_YXC))

        with studio.runs.alone(session):
            return session.draw(text, image, number, seen)

    drawing = asyncio.ensure_future(studio.passes.do(job))
    drawing.add_done_callback(partial(_ended, frames))
    first = await frames.get()
    if first is None:
        drawing.result()  # a refusal is answered as any other

    async def stream() -> AsyncIterator[bytes]:
        try:
            frame = first
            while frame is not None:
                yield frame
                frame = await frames.get()
            yield LAST.to_bytes(COUNT, "little") + drawing.result().encode()
        finally:
            gone.set()

    side = str(getattr(studio.runs.session(run), "side", 0))
    return StreamingResponse(stream(), media_type="application/octet-stream", headers={"x-side": side})


def _ended(frames: asyncio.Queue[bytes | None], drawing: asyncio.Future[str]) -> None:
    """End the frames and read the task's error, or Python would report it as unhandled."""
    if not drawing.cancelled():
        drawing.exception()
    frames.put_nowait(None)


def _shown(image_YXC: np.ndarray) -> bytes:
    return np.broadcast_to(image_YXC, (*image_YXC.shape[:2], 3)).astype(np.uint8).tobytes()


# --- what a model attends to in an image ------------------------------------------------------------------------------------


@router.ask("/api/image-rows", "reads")
def rows(studio: Studio, look: Look, token: Count) -> np.ndarray:
    """weights_LHT: what a token attends to, by every layer and head; zeros where a layer has lost heads that others have."""
    found = rows_of(look.subject, look.seen, readers(look.subject, look.seen), _token(look, token))
    heads = max(map(len, found))
    return np.stack([np.pad(row_HT, ((0, heads - len(row_HT)), (0, 0))) for row_HT in found]).astype(np.float32)


@router.ask("/api/image-rollout", "reads")
def rollout(studio: Studio, look: Look, token: Count | None = None) -> np.ndarray:
    """shares_LT of what the head reads, or of a token: through the last layer, through the last two, ... through all."""
    if token is None:
        begin_T = begin_of(look.subject, look.seen)
    else:
        begin_T = np.eye(len(look.subject.sides[image_of(look.subject).stack]))[_token(look, token)]
    return rolled_out(look.subject, look.seen, begin_T).astype(np.float32)


@router.ask("/api/image-pooled", "reads")
def pooled(studio: Studio, look: Look) -> np.ndarray:
    """share_T: how much of each token the head reads."""
    return begin_of(look.subject, look.seen).astype(np.float32)


@router.ask("/api/image-relevance", "passes")
def relevant(studio: Studio, look: Look, choice: Count) -> np.ndarray:
    """relevance_T of the tokens for a class."""
    image_of(look.subject)
    with studio.runs.alone(look.session):
        logits_V, relevant = relevances(look.subject)
        if choice >= len(logits_V):
            raise UserError(f"there is no class {choice}; there are {len(logits_V)}, numbered from 0.")
        return np.asarray(relevant(choice)).astype(np.float32)


@router.ask("/api/image-latents", "passes")
def latents(studio: Studio, look: Look) -> np.ndarray:
    """maps_NM: what all latents read, and those that the answer attends to most."""
    with studio.runs.alone(look.session):
        maps_NYX = latent_maps(look.subject).maps_NYX
    return maps_NYX.reshape(len(maps_NYX), -1).astype(np.float32)


@router.ask("/api/image-latent-names", "passes")
def latent_names(studio: Studio, look: Look) -> dict[str, Any]:
    with studio.runs.alone(look.session):
        return {"names": latent_maps(look.subject).names}


@router.ask("/api/heat", "passes", "POST")
def heat(studio: Studio, question: Asked) -> dict[str, Any]:
    """Return where a model attended in an image as it answered a question: a map for each word, or one for the answer."""
    session = studio.runs.session(question.run)
    with studio.runs.alone(session):
        found, answers = session.heat(question.image, question.question)
    told = [{"answer": answer, "p": p} for answer, p in answers]
    maps = found.maps_LYX.reshape(len(found.words), -1)
    return {"words": found.words, "maps": maps, "rows": found.maps_LYX.shape[1], "columns": found.maps_LYX.shape[2],
            "averaged": found.averaged, "answers": told}  # fmt: skip


@router.ask("/api/image-roles", "passes")
def roles(studio: Studio, look: Look) -> dict[str, Any]:
    """Return how far and in which direction every head looks, beside random weights."""
    image_of(look.subject)
    with studio.runs.alone(look.session):
        return look.session.image_roles(look.asked.text, look.subject, look.seen).as_dict()


def _token(look: ModelPass, token: int) -> int:
    count = len(look.subject.sides[image_of(look.subject).stack])
    if token >= count:
        raise UserError(f"token {token} is not there; this image has {count}, numbered from 0.")
    return token

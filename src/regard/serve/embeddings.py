"""`/v1/embeddings`: a vector for each text."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from starlette.responses import Response

from regard.runs.protocols import Embeds
from regard.serve.bridge import Asked
from regard.serve.errors import Json, Refused
from regard.serve.models import EMBEDDINGS
from regard.serve.openai_bodies import EmbeddingsBody, EmbeddingsReply
from regard.serve.work import Answer
from regard.tasks.bodies import listed, must_have_words

router = APIRouter()


@router.post(EMBEDDINGS, response_model=EmbeddingsReply, summary="Vectors of texts")
async def embed(request: Request, body: EmbeddingsBody) -> Response:
    asked = Asked.begin(request, body.model, EMBEDDINGS)
    texts = [must_have_words(text) for text in listed(body.input)]
    asked.api.check_texts(texts)
    if asked.api.log_texts:
        asked.record.body = body.model_dump(exclude_none=True)
    results = await asked.results([Answer(inputs=text, batch=vectors, length=len(text)) for text in texts])
    found_ND = shortened(np.stack([result.value for result in results]), body.dimensions)
    tokenizer = asked.model.predictor.tokenizer
    tokens = 0 if tokenizer is None else sum(map(len, tokenizer.encode_batch(texts)))
    asked.record.prompt_tokens += tokens
    data = [{"object": "embedding", "index": n, "embedding": coded(row, body.encoding_format)} for n, row in enumerate(found_ND)]
    counted = {"prompt_tokens": tokens, "total_tokens": tokens}
    return Json({"object": "list", "model": asked.model.name, "data": data, "usage": counted})


def vectors(predictor: Embeds, texts: Sequence[str]) -> Sequence[np.ndarray]:
    """Embed a batch, in the engine's thread."""
    return list(predictor.embed(texts))


def shortened(found_ND: np.ndarray, dimensions: int | None) -> np.ndarray:
    """Return the first numbers of each vector, made of length 1."""
    if dimensions is None:
        return found_ND
    if dimensions > found_ND.shape[1]:
        raise Refused(f"dimensions={dimensions:,} were asked for, and this model has {found_ND.shape[1]:,}.", param="dimensions")
    cut_ND = found_ND[:, :dimensions]
    return cut_ND / np.maximum(np.linalg.norm(cut_ND, axis=1, keepdims=True), 1e-12)


def coded(row_D: np.ndarray, encoding: str | None) -> Any:
    """Return a vector as a list, or as base64 of little-endian float32."""
    if encoding == "base64":
        return base64.b64encode(row_D.astype("<f4").tobytes()).decode("ascii")
    return [float(number) for number in row_D]

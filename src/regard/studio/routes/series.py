"""Questions about forecasts: a window with what came after it, and what its times, patches or channels attend to."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query

from regard.lens.analyses.series_attention import series_attention
from regard.lens.analyses.weights import Choice
from regard.studio.routes import Count, Look, Questions, Studio

router = Questions()
Part = Annotated[Literal["cross", "decoder", "encoder"] | None, Query()]


@router.ask("/api/series-attention", "passes")
def attention(studio: Studio, look: Look, part: Part = None, layer: Count | None = None) -> dict[str, Any]:
    """Return the window, its forecast, and maps: of each layer the mean over heads, or of one layer each head."""
    with studio.runs.alone(look.session):
        return series_attention(look.subject, Choice(part=part, layer=layer)).as_dict()

"""Who looks at whom in each named pattern: `python docs/images/patterns.py` draws patterns.png beside itself."""

from __future__ import annotations

from pathlib import Path

from regard.lens.plots.mask_pattern import Panel, drawn
from regard.lens.plots.render import rendered
from regard.model.visibility.parse import parse_visibility

TOKENS = 64
SHOWN = (
    *("full", "causal", "window(6)", "block(8)"),
    *("strided(8)", "global(3)", "random(2, block=4)", "causal & strided(4, 4)"),
    *("longformer(12, 2)", "bigbird(4)", "sparse-transformer(8, 2)", "causal & bigbird(4)"),
    *("sparse-transformer-strided(8)", "image-local-1d(8, 8)", "image-local-2d(8, 4, 4, 1, 1)", "causal & longformer(12, 2)"),
)


if __name__ == "__main__":
    caption = "Queries down, keys across, dark where a pair is seen. Any of them can be joined by | or crossed by &."
    panels = [Panel(text, parse_visibility(text), TOKENS) for text in SHOWN]
    picture = rendered(lambda: drawn("Patterns by name", caption, panels), "png")
    Path(__file__).with_name("patterns.png").write_bytes(picture)

"""Who looks at whom in a model, by which kernels, and why: for `explain`, in words and as a picture."""

from __future__ import annotations

from pathlib import Path

from regard.errors import UserError
from regard.families.captioner import CaptionerConfig
from regard.families.hierarchical import HierarchicalConfig
from regard.families.sizes import Bodies, Cells, Config, context, depth
from regard.families.words import WordsConfig
from regard.lens.pattern import Panel, drawn
from regard.lens.picture import store
from regard.lens.render import rendered
from regard.model.mixers import CONVOLUTION, KERNEL_WIDTH, SCORES
from regard.model.mixers.scan import CHUNK
from regard.model.patterns.choice import DENSE, told
from regard.model.patterns.parse import parse_visibility
from regard.model.visibility import Both, Either, Visibility, causal, full
from regard.tasks.sizes import Footprint
from regard.tasks.whole import told_whole


def looks(config: Config) -> str:
    """Who looks at whom, and how."""
    if isinstance(config, HierarchicalConfig):
        return f"a learned query at the words of each sentence, another at the sentences; mixer {config.score}"
    if isinstance(config, Cells):
        return f"decoder back at {config.visibility} & padding; mixer {config.score}" if config.score else "nobody at anybody"
    seen = parse_visibility(config.visibility)
    sides = [f"{side} {name}{' & padding' if side == 'encoder' else ''}" for side, name in _names(config).items()]
    meant = f", where {config.visibility} is {str(seen)[1:-1]}" if isinstance(seen, Both | Either) and not _joined(config) else ""
    whole = f"; {short}" if (short := told_whole(config)) else ""
    return f"{', '.join(sides)}{meant}{whole}; mixer {config.mixer}; position {config.position}"


def looks_at_cells(config: CaptionerConfig) -> str:
    seen = "" if config.encoder == "cnn" else f"cells at cells, {config.visibility}; "
    words = "" if config.decoder == "lstm" else "words at words before them; "
    return f"{seen}{words}words at all {config.side} x {config.side} cells; mixer {config.mixer}; position {config.position}"


def computed(footprint: Footprint) -> str:
    """By which kernels and why."""
    config = footprint.config
    assert not isinstance(config, Cells)
    return "; ".join(f"{name} {_by(config, side, _tokens(footprint))}" for name, side in _sides(config).items())


def draw_looks(title: str, footprint: Footprint, out: Path) -> None:
    kind, config = out.suffix.lower().removeprefix("."), footprint.config
    if kind not in ("png", "svg"):
        raise UserError(f"--out {out} must end in .png or .svg, which say what kind of picture to draw.")
    if isinstance(config, Cells | WordsConfig | CaptionerConfig) or config.mixer == CONVOLUTION:
        raise UserError(f"--out {out}: {title!r} has no pattern of tokens that look at tokens; leave out --out.")
    names, tokens = _names(config), _tokens(footprint)
    panels = [Panel(f"{side} {names[side]}", pattern, tokens) for side, pattern in _sides(config).items()]
    caption = f"Queries down, keys across, dark where a pair is seen. Computed: {computed(footprint)}."
    store(rendered(lambda: drawn(title, caption, panels), "png" if kind == "png" else "svg"), out)


def _sides(config: Bodies) -> dict[str, Visibility]:
    pattern, (readers, writers) = parse_visibility(config.visibility), depth(config)
    return ({"encoder": pattern} if readers else {}) | ({"decoder": causal & pattern} if writers else {})


def _names(config: Bodies) -> dict[str, str]:
    """As they were given."""
    given = f"({config.visibility})" if "|" in config.visibility else config.visibility
    before = "causal" if parse_visibility(config.visibility) == full else f"causal & {given}"
    return {side: given if side == "encoder" else before for side in _sides(config)}


def _joined(config: Bodies) -> bool:
    """Is it more than one name?"""
    return "&" in config.visibility or "|" in config.visibility


def _tokens(footprint: Footprint) -> int:
    """As many as there are positions for, or as texts have."""
    return context(footprint.config) or footprint.tokens


def _by(config: Bodies, side: Visibility, tokens: int) -> str:
    if config.mixer == CONVOLUTION:
        return f"one convolution, over {config.kernel_width or KERNEL_WIDTH} tokens (nobody is compared)"
    if config.mixer == "softmax":
        return told(side.static, tokens, config.attention_dropout)
    if config.mixer in SCORES:
        return f"{DENSE} ({config.mixer} has no kernel that leaves out blocks)"
    parts = f"chunks of {CHUNK} tokens, each with the sums of all before it" if side.looks_back else "sums of all tokens, once"
    return f"{parts} (features need no pairs)"

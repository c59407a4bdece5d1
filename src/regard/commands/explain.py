"""`regard explain`: a model as a tree of parts, and what it needs.

Visibility, mixer, position and kernels of a model, in words and as a picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import UserError, nearest
from regard.decode.config import CHEAPER, DecodeConfig
from regard.families import family_of
from regard.families.flops import Part
from regard.families.published_sizes import SIZES
from regard.lens.plots.mask_pattern import Panel, drawn
from regard.lens.plots.render import render_figure
from regard.lens.result import store
from regard.model.mixers import SCORES
from regard.model.mixers.causal_scan import CHUNK
from regard.model.position import is_biased
from regard.model.sparse.dispatch import DENSE, describe
from regard.model.sparse.probsparse import ProbSparse
from regard.model.visibility import Visibility, causal, full
from regard.model.visibility.combine import Both, Either
from regard.model.visibility.parse import parse_visibility
from regard.runs.cost import TYPICAL, amount, model_tree, typical
from regard.runs.folder import Run
from regard.runs.footprint import BYTES, Footprint, sized
from regard.runs.recipe import builtin_names, load_recipe
from regard.runs.task import TASKS
from regard.tasks.notices import pattern_notice

UNITS = (("MFLOP", 1e6), ("GFLOP", 1e9), ("TFLOP", 1e12))  # of the operations' column: the first that keeps it readable


def explain_tree(target: str, settings: Sequence[str]) -> str:
    """Every part with its shape in our letters, parameters, operations for a typical text, and file; then what it all needs."""
    model = _explained(target, settings)
    rows = [("  " * depth + part.name, part.shape, part) for depth, part in model.footprint.tree.walk()]
    first, second = (max(len(row[n]) for row in rows) + 2 for n in (0, 1))  # type: ignore[arg-type]
    unit, scale = next((u for u in UNITS if model.footprint.tree.flops < 1e5 * u[1]), UNITS[-1])
    lines = [
        f"{model.title}: {model.paper}",
        "D width, H heads, K head width, F feed-forward width, V vocabulary, I width of inputs; a -> b: shapes of one text",
        "",
        f"{'part':<{first}}{'shape':<{second}}{'parameters':>16}{unit:>11}  file",
    ]
    lines += [f"{n:<{first}}{s:<{second}}{p.parameters:>16,}{p.flops / scale:>11,.1f}  regard/{p.file}" for n, s, p in rows]
    config, family = model.footprint.config, family_of(model.footprint.config)
    if not family.has_any("word_vectors", "captioning"):  # which are not counted in tokens
        lines += ["", *model.footprint.lines()]
    else:
        lines += ["", f"{'parameters':<12}{model.footprint.parameters:,}"]
    if family.has("attention"):
        lines += [f"{'attention':<12}{attention_summary(config)}"]
    if family.has("blocks"):
        lines += [f"{'computed':<12}{computed(model.footprint)}"]
    if model.decode is not None:
        lines += [f"{'decoding':<12}{decoding(model.footprint, model.decode)}"]
    return "\n".join(lines)


def explain_picture(target: str, settings: Sequence[str], out: Path) -> None:
    """Draw the attention pattern of a model: which query attends to which key."""
    model = _explained(target, settings)
    kind, footprint, config = out.suffix.lower().removeprefix("."), model.footprint, model.footprint.config
    if kind not in ("png", "svg"):
        raise UserError(f"--out {out} must end in .png or .svg, which say what kind of picture to draw.")
    if not family_of(config).has("blocks") or config.mixer == "conv":
        raise UserError(f"--out {out}: {model.title!r} has no attention pattern between tokens; leave out --out.")
    names, tokens = _names(config), _tokens(footprint)
    panels = [Panel(f"{side} {names[side]}", pattern, tokens) for side, pattern in _sides(config).items()]
    caption = f"Queries down, keys across, dark where a pair is seen. Computed: {computed(footprint)}."
    store(render_figure(lambda: drawn(model.title, caption, panels), "png" if kind == "png" else "svg"), out)


def explain_rows(target: str, settings: Sequence[str]) -> dict[str, Any]:
    """The tree for machines, with all figures at its root."""
    model = _explained(target, settings)
    plain = family_of(model.footprint.config).has_any("word_vectors", "captioning")
    figures = {"parameters": model.footprint.parameters} if plain else model.footprint.figures()
    return _as_dict(model.footprint.tree) | {"title": model.title, "paper": model.paper, "figures": figures}


def _as_dict(part: Part) -> dict[str, Any]:
    own = {key: getattr(part, key) for key in ("name", "shape", "parameters", "flops")} | {"file": f"regard/{part.file}"}
    return own | ({"parts": [_as_dict(child) for child in part.children]} if part.children else {})


@dataclass(frozen=True)
class _Explained:
    title: str
    paper: str
    footprint: Footprint
    decode: DecodeConfig | None = None  # of a recipe or run that writes text


def _explained(target: str, settings: Sequence[str]) -> _Explained:
    """A run by its folder, a recipe by its name or file, or a published size; of a size and a recipe of one name, the recipe."""
    recipes = builtin_names()
    if Path(target).is_dir():
        run = Run.open(target)
        recipe = run.recipe_with(list(settings))
        own = TASKS[recipe.task.name].parts
        tree = own(run, recipe, typical(recipe)) if own else model_tree(recipe, *run.vocabulary_sizes())
    elif target in SIZES and target not in recipes:
        size, as_published = sized(target, settings)
        tokens = size.config.context or TYPICAL
        tree = family_of(size.config).count(size.config, size.sizes, tokens)
        title = size.title if as_published else f"{size.title} with other settings"
        return _Explained(title, size.paper, Footprint(size.config, tree, tokens, size if as_published else None))
    elif Path(target).name == target and Path(target).suffix != ".toml" and target not in recipes:
        raise UserError(
            f"there is no recipe and no size {target!r}{nearest(target, [*recipes, *SIZES])} Give a recipe ('regard recipes' "
            "lists them), a size such as gpt3-175b, the folder of a run, or a .toml file."
        )
    else:
        recipe = load_recipe(target, settings)
        tree = model_tree(recipe)
    about = recipe.recipe
    family = family_of(recipe.model)
    writes = (TASKS[recipe.task.name].continues or family.has("seq2seq")) and family.has("blocks")
    decode = recipe.decode if writes else None
    return _Explained(about.title or about.name, about.paper, Footprint(recipe.model, tree, typical(recipe)), decode)


def attention_summary(config: Any) -> str:
    """Return what attends to what, and how."""
    if not family_of(config).has("blocks"):
        return config.attends or "none"
    seen = parse_visibility(config.visibility)
    images = family_of(config).has_any("image_classification", "masked_image_modeling")
    padded = "" if images else " & padding"  # images of a batch have one size
    sides = [f"{side} {name}{padded if side == 'encoder' else ''}" for side, name in _names(config).items()]
    named = isinstance(seen, Both | Either) and not set("&|") & set(config.visibility)  # one name for a combination
    meant = f", where {config.visibility} is {str(seen)[1:-1]}" if named else ""
    whole = f"; {short}" if (short := pattern_notice(config)) else ""
    memory = f"; a memory of {tokens:,} tokens before each segment" if (tokens := getattr(config, "memory", 0)) else ""
    return f"{', '.join(sides)}{meant}{whole}{memory}; mixer {config.mixer}; position {config.position}"


def computed(footprint: Footprint) -> str:
    """Return which kernels compute attention, and why."""
    config = footprint.config
    return "; ".join(f"{name} {_by(config, side, _tokens(footprint))}" for name, side in _sides(config).items())


def decoding(footprint: Footprint, decode: DecodeConfig) -> str:
    """Return what decoding keeps of earlier tokens, and what proposes tokens."""
    config, cached = footprint.config, footprint.cached_per_token
    reach = (causal & parse_visibility(config.visibility)).reach
    source = " and of the source" if all(config.depth) else ""
    if not cached or config.mixer not in SCORES:
        left_out = decode.changed([*CHEAPER, "share_prefix"])
        refused = f"; no keys of what is written are kept, so decode.{left_out[0]} is refused" if left_out else ""
        return f"a state of one size, whatever the length{refused}"
    if decode.cache == "window" and (reach is None or reach[0] < 0):
        kept = "decode.cache=window is refused: this model sees more than a window of the last tokens"
    elif decode.cache == "window":
        assert reach is not None
        tokens = reach[0] + 1
        kept = f"keys and values of the last {tokens:,} tokens, {amount(4 * cached * tokens, *BYTES)} whatever the length"
        kept += f", and of the source, {amount(4 * cached, *BYTES)} a token" if source else ""
    elif decode.cache == "int8":
        size = cached + 4 * cached // config.key_width
        kept = f"keys and values{source and ' of the text and of the source'} in 8 bits and a scale for each head, "
        kept += f"{amount(size, *BYTES)} a token in place of "
        kept += amount(4 * cached, *BYTES)
    else:
        kept = f"keys and values of all tokens{source}, {amount(4 * cached, *BYTES)} a token in fp32"
    more = []
    if decode.prompt_lookup:
        more += [f"up to {decode.prompt_lookup} tokens at a time proposed from the text itself{source and ' and its source'}"]
    if decode.draft:
        more += [f"up to {decode.draft_tokens} tokens at a time proposed by {decode.draft}"]
    if more:
        more += ["steps are not captured as CUDA graphs"]
    if decode.share_prefix:
        more += ["what all prompts of a batch begin with is encoded once"]
    return "; ".join([kept, *more])


def _sides(config: Any) -> dict[str, Visibility]:
    pattern, (readers, writers) = parse_visibility(config.visibility), config.depth
    return ({"encoder": pattern} if readers else {}) | ({"decoder": causal & pattern} if writers else {})


def _names(config: Any) -> dict[str, str]:
    """Return the visibility of each stack as it was given."""
    given = f"({config.visibility})" if "|" in config.visibility else config.visibility
    before = "causal" if parse_visibility(config.visibility) == full else f"causal & {given}"
    return {side: given if side == "encoder" else before for side in _sides(config)}


def _tokens(footprint: Footprint) -> int:
    """Return the length of a text: all positions, or that of a typical text."""
    return footprint.config.context or footprint.tokens


def _by(config: Any, side: Visibility, tokens: int) -> str:
    if config.mixer == "conv":
        return f"one convolution, over {config.kernel_size} tokens (no pairs are compared)"
    if config.mixer == "softmax":
        return describe(side.data_independent, tokens, config.attention_dropout, is_biased(config))
    if config.mixer == "probsparse":
        count = ProbSparse(config.sampling_factor, "").count(tokens)
        return f"the {count} of {tokens:,} queries that stand out, all pairs of each; the mean of the values for the others"
    if config.mixer in SCORES:
        return f"{DENSE} ({config.mixer} has no kernel that leaves out blocks)"
    parts = f"chunks of {CHUNK} tokens, each with the sums of all before it" if side.looks_back else "sums of all tokens, once"
    return f"{parts} (features need no pairs)"

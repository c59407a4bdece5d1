"""A captioner counted: its tree of parts, with parameters and the operations of one image and one caption."""

from __future__ import annotations

from regard.families.captioner import CaptionerConfig
from regard.model.count import (
    Part,
    embedding,
    feedforward,
    learned_positions,
    linear,
    norm,
    score_parameters,
    stack,
    vocabulary_head,
)
from regard.model.image_cells import COLOURS, KERNEL, stage_channels
from regard.model.recurrence.recurrent import GATES, PARTS


def count(config: CaptionerConfig, vocabulary: int, words: int) -> Part:
    """The model as a tree of parts with their parameters and the operations of one image and a caption of so many words."""
    c, file = config, "families/captioner.py"
    encoder = [_cells(c)] + ([learned_positions("grid positions", c.cells, c.width)] if c.position == "learned" else [])
    encoder += [stack("blocks", c, c.depth[0], c.cells)] if c.depth[0] else [_think(c)]
    parts = [Part("encoder", f"{c.side} x {c.side} cells", "model/image_encoder.py", children=tuple(encoder))]
    parts += [embedding("words", vocabulary, c.width)]
    if c.decoder == "transformer":
        parts += [learned_positions("positions", c.maximum_length, c.width)] if c.position == "learned" else []
        parts += [stack("decoder", c, c.depth[1], words, c.cells)]
    else:
        parts += _lstm(c, words)
    parts += [vocabulary_head(c.width, vocabulary, words, tied=c.tie != "none")]
    return Part("captioner", f"B,Y,X,C and B,L -> B,L,V={vocabulary:,}", file, children=tuple(parts))


def _cells(config: CaptionerConfig) -> Part:
    c, file = config, "model/image_cells.py"
    if c.encoder == "patches":
        numbers = COLOURS * c.patch**2
        flops = 2 * c.cells * numbers * c.width
        return Part("patches", f"P={numbers} -> D={c.width}", file, linear(numbers, c.width), flops)
    stages, inputs, side = [], COLOURS, c.image_size
    for n, outputs in enumerate(stage_channels(c.patch, c.width)):
        side //= 2
        own = KERNEL**2 * inputs * outputs
        shape = f"C={inputs} -> {outputs}, {side} x {side}"
        stages += [Part(f"stage {n}", shape, file, own + 2 * outputs, 2 * side**2 * own)]
        inputs = outputs
    return Part("convolutions", f"{len(stages)} stages", file, children=tuple(stages))


def _think(config: CaptionerConfig) -> Part:
    parts = (norm(config.width), feedforward(config.width, 2 * config.width, config.cells))
    return Part("think", f"D={config.width}", "model/image_encoder.py", children=parts)


def _lstm(config: CaptionerConfig, words: int) -> list[Part]:
    c, layers, width = config, config.depth[1], config.width
    begin, gates, parts = layers * PARTS["lstm"] * width, GATES["lstm"] * width, list[Part]()
    for n in range(layers):
        inputs = (1 if n else 2) * width
        own, flops = gates * (inputs + width + 2), 2 * words * gates * (inputs + width)
        parts += [Part(f"layer {n}", f"I={inputs} -> D={width}", "model/recurrence/recurrent.py", own, flops)]
    projected = {"additive": c.cells + words, "bilinear": c.cells}.get(c.mixer, 0)
    matrices = {"additive": 2, "bilinear": 1}.get(c.mixer, 0)
    score = matrices * width**2 + (score_parameters(c.mixer, width) if c.mixer == "additive" else 0)
    looking = 2 * projected * width**2 + 2 * c.cells * words * width * 2
    parts += [Part("cross", f"{c.mixer}, D={width}", "model/recurrence/aligner.py", score, looking)]
    deep = linear(3 * width, 2 * width)
    parts += [Part("deep output", f"{3 * width} -> {2 * width}", "model/recurrence/decoders.py", deep, 2 * words * 6 * width**2)]
    return [
        Part("begin", f"D={width} -> {begin}", "families/captioner.py", linear(width, begin), 2 * width * begin),
        Part("decoder", f"{layers} x lstm", "model/recurrence/decoders.py", children=tuple(parts)),
    ]

"""Which heads a public folder has, and what the labels are called that its texts or tokens get.

Tensors tell which heads came along: a folder of `BertForMaskedLM` may hold the head for next sentences too. Where two heads would
be stored under one name (BERT's `classifier` scores whole texts or tokens), the architecture in `config.json` decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from regard.core.errors import UserError, nearest
from regard.core.terminal import quoted
from regard.families.base import Heads
from regard.interop.huggingface.mapping import Entry, Layout

PLACES = {"words": "head"}  # where a head's tensors lie with us, if not under its own name
NAMED = ("classes", "tags")  # heads with labels


class Found(NamedTuple):
    heads: tuple[str, ...]
    unused: tuple[str, ...]  # names of tensors, without the prefix, that another head has in their stead


def find_heads(stored: Collection[str], raw: Mapping[str, Any], layout: Layout, where: str) -> Found:
    """`stored` are names without the prefix; `where` names `config.json` in sentences."""
    if not layout.heads:
        return Found((), ())
    promised = _promised(raw.get("architectures"), layout, where)
    there = [head for head, entries in layout.heads.items() if head in promised or not _names(entries).isdisjoint(stored)]
    kept = [head for head in there if head in promised or not _claimed(head, there, promised, layout, where)]
    needed = ["pooler"] if {"next_sentence", "classes"} & {*kept} and "pooler" in layout.heads else []
    given: set[str] = set()
    heads, unused = [], []
    for head in dict.fromkeys([*kept, *needed]):
        ours = {entry.ours for entry in layout.heads[head]}
        if given.isdisjoint(ours):
            heads.append(head)
            given |= ours
        else:
            unused += sorted(_names(layout.heads[head]).intersection(stored))
    return Found(tuple(heads), tuple(unused))


def heads_of_weights(weights: Iterable[str], layout: Layout) -> tuple[str, ...]:
    """Ours, by the names of a `state_dict`."""
    parts = {name.partition(".")[0] for name in weights}
    there = [head for head in layout.heads if PLACES.get(head, head) in parts]
    apart = "pooler" in there and not any(
        entry.ours.startswith("pooler.") for head in there if head != "pooler" for entry in layout.heads[head]
    )
    return tuple(head for head in there if head != "pooler" or apart)


def architecture_of(heads: Sequence[str], layout: Layout) -> str:
    """The class of transformers that has just these; a pooler may lie beside any."""
    asked = [head for head in heads if head != "pooler"]
    for name, theirs in layout.architectures.items():
        if {*theirs} == {*asked}:
            return name
    raise UserError(
        f"A model with the heads {' and '.join(asked)} cannot be written as {layout.model_type} of transformers, which has no "
        f"class for them together; it has: {', '.join(layout.architectures)}."
    )


def as_heads(heads: Collection[str], layout: Layout, labels: int) -> Heads:
    if not layout.heads:
        return Heads()
    ours = {entry.ours.partition(".")[0] for head in heads for entry in layout.heads[head]}
    return Heads(
        words="head" in ours,
        pooler="pooler" in ours,
        next_sentence="next_sentence" in ours,
        classes=labels if "classes" in ours else 0,
        tags=labels if "tags" in ours else 0,
        span="span" in ours,
        replaced="replaced" in ours,
    )


def read_labels(raw: Mapping[str, Any], heads: Collection[str], where: str) -> tuple[str, ...]:
    """In the order of their numbers; none where no head has any. Without names transformers has two, or as many as it says."""
    if not {*heads} & {*NAMED}:
        return ()
    names, many = raw.get("id2label"), raw.get("num_labels", raw.get("_num_labels", 2))
    if names is None and isinstance(many, int) and 0 < many < 1_000_000:
        return tuple(f"LABEL_{n}" for n in range(many))
    if not isinstance(names, dict) or {*names} != {str(n) for n in range(len(names))} or not names:
        raise UserError(f"{where} does not number its labels 0, 1, 2, ... in id2label; download or copy it again.")
    labels = tuple(names[str(n)] for n in range(len(names)))
    if not all(isinstance(label, str) for label in labels) or len({*labels}) < len(labels):
        raise UserError(f"{where} has labels in id2label that are no names, or twice the same; give each a name of its own.")
    unseen = [label for label in labels if not label.strip() or not label.isprintable()]
    if unseen:
        raise UserError(
            f"{where} has the label {quoted(unseen[0])!r} in id2label, which is empty or holds a line end, a tab or another "
            "character that cannot be seen; write one word or a few."
        )
    return labels


def _promised(given: Any, layout: Layout, where: str) -> tuple[str, ...]:
    if given is None or given == []:
        return ()
    name = given[0] if isinstance(given, list) and len(given) == 1 else given
    if not isinstance(name, str) or name not in layout.architectures:
        said = nearest(name, layout.architectures) if isinstance(name, str) else "."
        raise UserError(f"{where} has the architecture {str(name)[:60]!r}, which this version of Regard does not know{said}")
    return layout.architectures[name]


def _claimed(head: str, there: Sequence[str], promised: Sequence[str], layout: Layout, where: str) -> bool:
    """Do the tensors that would be this head's belong to another? Only the architecture says whose they are."""
    mine = _names(layout.heads[head])
    rivals = [other for other in there if other != head and mine & _names(layout.heads[other])]
    if rivals and not any(rival in promised for rival in rivals):
        classes = [name for name, heads in layout.architectures.items() if {*heads} & {head, *rivals}]
        raise UserError(
            f"{where} does not say whether the head beside it is for {' or for '.join([head, *rivals])}; add architectures with "
            f"one of: {', '.join(classes)}."
        )
    return bool(rivals)


def _names(entries: Iterable[Entry]) -> set[str]:
    return {name for entry in entries for name in (*entry.theirs, *entry.again)}

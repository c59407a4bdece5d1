"""Families only choose parts. Their settings and builders, by the name a recipe uses."""

from __future__ import annotations

from regard.families.transformer import Transformer, TransformerConfig

FAMILIES = {"transformer": (TransformerConfig, Transformer)}

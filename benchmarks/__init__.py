"""Measurements against peers, both in one run: `regard bench NAME` runs a script of this folder."""

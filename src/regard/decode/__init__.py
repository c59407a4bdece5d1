"""Decoding from a model to its outputs: one search for recurrent, cached and linear-attention states."""

"""Public checkpoints: folders that Hugging Face transformers writes and opens, read and written without it.

A model is public as a `config.json` and named tensors. A layout (`gpt.py`, `bert.py`, `bert_variants.py`) says as data what both
mean here; `config.py` and `tensors.py` translate by it, in both directions; `heads.py` finds the heads of a checkpoint; `load.py`
and `save.py` are about files.
"""

from __future__ import annotations

from regard.interop.huggingface.load import Public, read_public
from regard.interop.huggingface.save import write_public

__all__ = ["Public", "read_public", "write_public"]

"""Public checkpoints: folders that Hugging Face transformers writes and opens, read and written without it.

A model is public as a `config.json` and named tensors. A layout (`gpt.py`, `bert.py`, `relatives.py`) says as data what both mean
here; `settings.py` and `tensors.py` translate by it, in both directions; `heads.py` tells what a body came with; `reading.py` and
`writing.py` are about files.
"""

from __future__ import annotations

from regard.interop.huggingface.load import Public, read_public
from regard.interop.huggingface.save import write_public

__all__ = ["Public", "read_public", "write_public"]

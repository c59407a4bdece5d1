"""Parts of a Perceiver: arrays that it reads (`inputs.py`), and latents that read them (`latents.py`)."""

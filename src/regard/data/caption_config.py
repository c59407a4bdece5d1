"""The `[data]` section of images with captions."""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.held_out import hint, must_be_share
from regard.errors import UserError


@dataclass(frozen=True, kw_only=True)
class CaptionsConfig:
    train: tuple[str, ...]
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    images: str = ""  # a folder or a .tar archive with the images; none: the folder that a captions file is in
    maximum_tokens: int = 64  # a longer caption is not trained on, and counted
    limit: int = 0  # use only so many training images; 0 is all
    held_out: float = 0.0  # where there is no valid: this share of train, picked at random, is held out for it

    def __post_init__(self) -> None:
        must_be_share(self.held_out)
        for key in ("train", "valid"):
            if not getattr(self, key) and (key == "train" or not self.held_out):
                raise UserError(
                    f"data.{key} is empty; give a captions file, such as captions.jsonl, or builtin:scenes/{key}.{hint(key)}"
                )
        if self.maximum_tokens < 2:
            raise UserError(f"data.maximum_tokens={self.maximum_tokens} must be at least 2.")
        if self.limit < 0:
            raise UserError(f"data.limit={self.limit} must be 0 (all) or more.")

"""A model by its name: a folder that is there, or one that the Hugging Face hub has, downloaded once into its cache.

`gpt2`, `owner/name`, and `name@revision` for a branch, a tag or a commit. Only what a model is opened from is fetched: its
configuration, its tokenizer and its weights as safetensors.
"""

from __future__ import annotations

import re
from pathlib import Path

from regard.core.errors import UserError
from regard.interop.huggingface.load import how_to_convert, opened_by

WANTED = ["*.json", "*.safetensors", "merges.txt", "vocab.*"]
UNWANTED = ["[!1]*/*"]  # folders hold the same model for other programs, but 1_Pooling how its vectors become a sentence's
HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


def local_folder(name: str) -> Path:
    """Return the folder of the model on this machine, downloading what is missing."""
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.is_file():
        raise UserError(f"{name} is a file; give the folder that it lies in.")
    repository, _, revision = name.partition("@")
    if not HUB_ID.fullmatch(repository) or repository.startswith("."):
        raise UserError(
            f"There is no folder {name}, and it is no name on the hub, such as gpt2 or owner/name or owner/name@revision."
        )
    folder = _downloaded(repository, revision or None)
    if not any(folder.glob("*.safetensors")):
        how = how_to_convert(repository, opened_by(folder))
        raise UserError(f"{name} on the hub has no safetensors, the only weights Regard reads; {how}")
    return folder


def _downloaded(repository: str, revision: str | None) -> Path:
    import huggingface_hub  # half a second that a folder does not need
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HFValidationError,
        HTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    at = f" at {revision!r}" if revision else ""
    try:
        return Path(
            huggingface_hub.snapshot_download(repository, revision=revision, allow_patterns=WANTED, ignore_patterns=UNWANTED)
        )
    except GatedRepoError as error:
        sentence = "is gated: accept its terms on its page on the hub, log in with 'hf auth login', and try again."
        raise UserError(f"{repository} {sentence}") from error
    except RepositoryNotFoundError as error:
        sentence = (
            "is neither a folder here nor a model on the hub that can be seen; if it is private, log in with 'hf auth login'."
        )
        raise UserError(f"{repository} {sentence}") from error
    except RevisionNotFoundError as error:
        raise UserError(f"{repository} on the hub has no branch, tag or commit {revision!r}.") from error
    except HFValidationError as error:
        raise UserError(f"{repository!r} is neither a folder here nor a name that the hub could have.") from error
    except LocalEntryNotFoundError as error:
        sentence = "is no folder here and not, or not all, in the cache of the hub, which cannot be reached"
        raise UserError(f"{repository}{at} {sentence}; connect, or download it elsewhere and give its folder.") from error
    except (HTTPError, EntryNotFoundError, OSError) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UserError(f"{repository}{at} could not be downloaded from the hub ({reason}); try again.") from error

"""gensim's word2vec, in a process and an environment of its own (`make peers`), where `gensim_there` trains it."""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path

from benchmarks.peers.apart import ROOT, Abroad

HOME = ROOT / ".peers" / "gensim"


def ready() -> bool:
    return (HOME / ".ready").is_file()


def version() -> dict[str, str]:
    """Of what is installed there."""
    folders = [str(folder) for folder in HOME.glob("lib/python*/site-packages")]
    return {"gensim": next(iter(distributions(name="gensim", path=folders))).version} if ready() else {}


def trainer(text: Path, skipgram: bool, threads: int) -> Abroad:
    """ask("epoch"): once through the text; ask("train", epochs, seed, file): from scratch, written as word2vec's text."""
    return Abroad(HOME / "bin" / "python", "benchmarks.peers.gensim_there", str(text), str(int(skipgram)), str(threads))

"""The four ids every vocabulary here begins with, so that a model never has to ask which number means "stop"."""

from __future__ import annotations

SPECIALS = ("<pad>", "<sos>", "<eos>", "<unk>")
PAD, SOS, EOS, UNK = range(len(SPECIALS))

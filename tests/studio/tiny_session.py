"""A translator of two layers and two heads that was never trained, with the tokens a test wants, and the server around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket
from threading import Lock, Thread
from time import sleep
from typing import Any

import torch

from regard.core.errors import UserError
from regard.decode.beam_trace import SearchTree, trace_beam
from regard.decode.config import BeamSettings
from regard.decode.request import SearchRequest
from regard.families.transformer import Transformer
from regard.lens.analyses.document import Document
from regard.lens.analyses.roles import Roles, tally_roles
from regard.lens.analyses.word_senses import Use, WordUses
from regard.lens.subject import Subject, TokenRow
from regard.studio.app import create
from regard.studio.gallery import Gallery
from regard.studio.passes import ModelPass, PassRequest, run_pass
from regard.studio.security import LOCAL, Asgi
from regard.studio.server import Limits, Server
from regard.studio.vocabulary import Vocabulary
from tests.decode.toy import VOCABULARY, lively

PAD, SOS, EOS = 0, 1, 2
WORDS = VOCABULARY


@dataclass
class TinySession:
    """Every word of a text is a token; its number is where it stands among `names`. The answer is the text reversed."""

    names: Sequence[str] = tuple(f"w{n}" for n in range(WORDS))
    model: Transformer = field(default_factory=lively)
    task: str = "translation"
    weights: str = "never trained"
    example: str = "w5 w6 w7 w8"
    facts: Mapping[str, str] = field(default_factory=lambda: {"task": "translation"})
    gallery: Gallery | None = None
    series: Mapping[str, Any] | None = None

    def number(self, word: str) -> int:
        return self.names.index(word) if word in self.names else 3 + sum(word.encode()) % (WORDS - 3)

    def side(self, text: str) -> TokenRow:
        words = text.split(" ")
        return TokenRow(tuple(words), tuple(map(self.number, words)), tuple(range(len(words))), (False,) * len(words))

    def subject(self, text: str, target: str | None) -> Subject:
        if not text.strip():
            raise UserError("the text is empty; give a sentence to look into.")
        said = target or " ".join(reversed(text.split(" ")))
        source, output = self.side(text), self.side(said)
        decoder = mark("<sos>", SOS) + output
        outputs = output + mark("<eos>", EOS)
        ids_M, ids_L = torch.tensor(source.ids), torch.tensor(decoder.ids)

        def hidden(copies: int) -> torch.Tensor:
            lengths = torch.full((copies,), len(ids_M))
            return self.model.hidden(ids_M.expand(copies, -1), lengths, ids_L.expand(copies, -1))

        return Subject(
            model=self.model,
            title=f"{text} → {said}",
            sides={"encoder": source, "decoder": decoder},
            forward=lambda copies: self.model.head(hidden(copies)),
            targets_L=torch.tensor(outputs.ids),
            outputs=outputs,
            choices=self.piece_of,
            head=self.model.head,
            hidden=hidden,
        )

    def answer(self, text: str) -> str:
        return " ".join(reversed(text.split(" ")))

    def document(self, text: str) -> Document:
        raise UserError("it does not read sentence by sentence.")

    def search(self, text: str, beam: int, forced: Sequence[int]) -> SearchTree:
        if any(not 3 <= token < WORDS for token in forced):
            raise UserError("that is not a piece that could be written.")
        ids = torch.tensor([self.side(text).ids])
        reading = self.model.start(ids, torch.tensor([ids.shape[1]]))
        settings, limit = BeamSettings(beam=beam, n_best=beam), len(forced) + 6
        request = SearchRequest(
            encoded=reading, sos=SOS, eos=EOS, limits=[limit], method=settings, banned=(PAD, SOS), forced=[forced]
        )
        return trace_beam(request)

    def alignment(self, text: str, tokens: Sequence[int]) -> tuple[Sequence[str], Sequence[float]]:
        side = self.side(text)
        return side.tokens, [1 / len(side)] * len(side)

    def roles(self, text: str, target: str | None) -> Roles:
        tallies = tally_roles([self.subject(text, target)])
        return Roles(text, tallies, tallies)

    def piece_of(self, token: int) -> str:
        return self.names[token % len(self.names)]

    @property
    def target_tokenizer(self) -> Any:
        return TinyTokenizer(self)

    def vocabulary(self) -> Vocabulary:
        vectors = self.model.source.tokens.weight
        positions = self.model.source.positions
        return Vocabulary(lambda word: [self.number(word)], self.piece_of, None, WORDS, vectors, positions, None)

    def uses(self, word: str, sentences: Sequence[str]) -> WordUses:
        found = [
            Use(text, text.index(word), text.index(word) + len(word), (word,)) for text in sentences if word and word in text
        ]
        if len(found) < 2:
            raise UserError("the word is used less than twice; give another sentence that has it.")
        draw = torch.Generator().manual_seed(0)
        vectors = [torch.randn(len(found), 8, generator=draw).numpy() for _ in range(3)]
        return WordUses(word, "tiny", tuple(found), tuple(vectors), torch.ones(3).numpy())


@dataclass(frozen=True)
class TinyTokenizer:
    """The methods of a tokenizer that studio calls, for words of a session."""

    session: TinySession

    def encode(self, word: str) -> list[int]:
        return [self.session.number(word)]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self.session.piece_of(i) for i in ids]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self.tokens(ids))


def mark(name: str, number: int) -> TokenRow:
    return TokenRow((name,), (number,), (0,), (True,))


@dataclass(frozen=True)
class TinyOpening:
    session: TinySession
    folder: Path | None = None
    steps: Sequence[int] = ()

    def open(self, step: int | None) -> TinySession:
        return self.session

    def version(self) -> str | None:
        return ""


def tiny_pass(text: str = "w5 w6 w7 w8 w9", session: TinySession | None = None) -> ModelPass:
    return run_pass(PassRequest("tiny", text), session or TinySession(), Lock())


@contextmanager
def served(openings: Mapping[str, TinyOpening], key: str | None = None, limits: Limits | None = None) -> Iterator[str]:
    """The real server, on a free port of this machine, in a thread."""
    with serving(create(openings, LOCAL, key), limits) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def serving(app: Asgi, limits: Limits | None = None) -> Iterator[int]:
    listener = socket()
    listener.bind(("127.0.0.1", 0))
    server = Server(app, listener, limits)
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        sleep(0.01)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join(20)
    assert not thread.is_alive()

"""Images with questions and answers, from whatever people have.

    "questions.jsonl"               {"image": "1.jpg", "question": "what colour is the dog?", "answer": "brown"}
    "questions.tsv"                 image, question, answer, parted by tabs; a first row with these names may stand above
    "questions.csv"                 the same with commas; a value with commas in quotes
    "questions.json"                [[question, answer, 7], ...] as easy-VQA comes; image 7 is images/7.png beside the file
    "builtin:scene-questions/train" drawn scenes with questions of five kinds (builtin/scene_questions.py)

`answers`, a list of several people's answers, may stand for `answer`: the most frequent of them counts, and of equally
frequent ones the first. A column `kind` names what kind of question it is; scores are then reported for each kind. Images are in
the file's own folder, or where `images` says: a folder or a .tar archive. An image that many questions are about is read once.

Dims: N images, Q questions, Y X rows and columns, C colours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.core.errors import UserError, nearest
from regard.core.files import MIB, read_text
from regard.data.builtin.scene_questions import scene_questions
from regard.data.builtin.scenes import SIZES, Scene
from regard.data.sources.captions import pixels_of
from regard.data.sources.files import JSON_LINES, suffix_of
from regard.data.sources.records import Record, json_records, parse_record, table_records, table_rows, text_of

ENTRY = re.compile(r"builtin:scene-questions(@count=(?P<count>\d{1,6}))?(/(?P<split>[^/]+))?")
EXAMPLE = '{"image": "1.jpg", "question": "what colour is the dog?", "answer": "brown"}'
COLUMNS = ("image", "question", "answer")
LARGEST = 1024 * MIB  # of a .json file, which is read whole
LONGEST = 2_000  # characters of a question


class VisualQuestion(NamedTuple):
    name: str  # of the image
    question: str
    answer: str
    place: str  # where it was read, for complaints
    kind: str = ""
    scene: Scene | None = None
    among: Path | None = None  # the folder or archive that has the image


@dataclass(frozen=True)
class VisualQuestions:
    images_NYXC: np.ndarray
    owner_Q: np.ndarray  # of each question, the number of its image
    questions: list[VisualQuestion]

    def __len__(self) -> int:
        return len(self.questions)

    def take(self, rows: np.ndarray) -> VisualQuestions:
        """Return these questions, in this order, with the images that they are about."""
        images, owner_Q = np.unique(self.owner_Q[rows], return_inverse=True)
        return VisualQuestions(self.images_NYXC[images], owner_Q, [self.questions[row] for row in rows])


def read_visual_questions(
    where: Sequence[str], columns: tuple[str, ...], images: str, side: int, limit: int | None = None
) -> VisualQuestions:
    """Read the questions of all files, or the first `limit` of them, and their images, resized to `side` pixels."""
    questions = [question for entry in where for question in _read(entry, columns, images)][:limit]
    numbers = dict[tuple[Path | None, str], int]()
    owner_Q = np.array([numbers.setdefault((q.among, q.name), len(numbers)) for q in questions], np.int64)
    first = dict(reversed(list(zip(owner_Q.tolist(), questions))))
    return VisualQuestions(pixels_of([first[n] for n in range(len(numbers))], side), owner_Q, questions)


def _read(entry: str, columns: tuple[str, ...], images: str) -> list[VisualQuestion]:
    if entry.startswith("builtin:"):
        return _scenes(entry)
    path = Path(entry).expanduser()
    easy = suffix_of(path) == ".json"
    among = Path(images).expanduser() if images else path.parent / "images" if easy else path.parent
    if easy:
        found = list(_from_pairs(path))
    elif suffix_of(path) in JSON_LINES:
        found = [_of_record(record, columns or COLUMNS) for record in json_records(path, (), EXAMPLE)]
    else:
        found = list(_from_table(path, columns))
    if not found:
        raise UserError(f"{entry}: there are no questions in it; give a file with image, question and answer.")
    return [question._replace(among=among) for question in found]


def _scenes(entry: str) -> list[VisualQuestion]:
    found = ENTRY.fullmatch(entry)
    if found is None:
        raise UserError(
            f"{entry} is not known; built-in questions about images are builtin:scene-questions/train, /valid and /test."
        )
    split = found["split"]
    if not split:
        raise UserError(f"{entry} lacks a split. Type builtin:scene-questions/train, or /valid, or /test.")
    if split not in SIZES:
        raise UserError(f"builtin:scene-questions has no split {split!r}{nearest(split, SIZES)}")
    if found["count"] is not None and not int(found["count"]):
        raise UserError(f"{entry} asks for no scene; write, for instance, builtin:scene-questions@count=100/{split}.")
    asked = scene_questions(split, int(found["count"]) if found["count"] else None)
    return [
        VisualQuestion(f"builtin:scenes/{split}/{q.scene.number}", q.text, q.answer, f"{entry}, question {n:,}", q.kind, q.scene)
        for n, q in enumerate(asked, 1)
    ]


def _from_table(path: Path, columns: tuple[str, ...]) -> Iterator[VisualQuestion]:
    """Read a table; without `columns`, those named image, question and answer in its first row, or the first three."""
    rows = table_rows(path)
    if columns:
        yield from (_of_record(record, columns) for record in table_records(path, rows, columns))
        return
    first = next(rows, None)
    if first is None:
        return
    named = set(COLUMNS) <= {name.strip().lower() for name in first[1]}
    header = [name.strip().lower() for name in first[1]] if named else list(COLUMNS)
    for number, values in rows if named else _again(first, rows):
        place = f"{path}, line {number}"
        if len(values) != len(header):
            raise UserError(
                f"{place}: columns found: {len(values)}, expected: {len(header)}, {', '.join(header)}; correct the line, or name "
                "columns by data.columns=IMAGE,QUESTION,ANSWER."
            )
        yield _of_record((place, dict(zip(header, values))), COLUMNS)


def _again(first: tuple[int, list[str]], rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    yield first
    yield from rows


def _from_pairs(path: Path) -> Iterator[VisualQuestion]:
    """Read easy-VQA's file: one JSON list of [question, answer, number of the image]."""
    found = parse_record(read_text(path, LARGEST), str(path), 'Write a list of ["question", "answer", 7], or JSON lines.')
    if not isinstance(found, list):
        raise UserError(
            f"{path}: {type(found).__name__} found, a list expected, as easy-VQA has it; write JSON lines (.jsonl) instead."
        )
    for number, triple in enumerate(found, 1):
        place = f"{path}, question {number:,}"
        good = isinstance(triple, list) and len(triple) == 3 and all(isinstance(text, str) for text in triple[:2])
        if not good or isinstance(triple[2], bool) or not isinstance(triple[2], int | str):
            raise UserError(
                f'{place}: ["question", "answer", 7] is expected, 7 being the number of an image or its name; correct it.'
            )
        name = triple[2] if isinstance(triple[2], str) else f"{triple[2]}.png"
        yield _checked(name, triple[0], triple[1], place)


def _of_record(record: Record, columns: tuple[str, ...]) -> VisualQuestion:
    place, values = record
    image, question, answer = columns[:3]
    choose = f"data.columns=IMAGE,QUESTION,ANSWER, or write lines like {EXAMPLE}."
    name, asked = (text_of(record, column, choose) for column in (image, question))
    several = values.get("answers") if answer not in values else None
    if several is not None:
        if not isinstance(several, list) or not several or not all(isinstance(text, str) for text in several):
            raise UserError(f"{place}: answers must be a list of one or more texts; write answer, one text, or correct the list.")
        given = Counter(" ".join(text.split()) for text in several).most_common(1)[0][0]
    else:
        given = text_of(record, answer, choose)
    kind = values.get(columns[3] if len(columns) > 3 else "kind", "")
    return _checked(name, asked, given, place, str(kind or ""))


def _checked(name: str, question: str, answer: str, place: str, kind: str = "") -> VisualQuestion:
    for what, text in (("image", name), ("question", question), ("answer", answer)):
        if not text.strip():
            raise UserError(f"{place}: the {what} is empty; write one, or take the line out.")
    if len(question) > LONGEST:
        raise UserError(f"{place}: the question has {len(question):,} characters, and {LONGEST:,} are taken at most; shorten it.")
    return VisualQuestion(name.strip(), " ".join(question.split()), " ".join(answer.split()), place, " ".join(kind.split()))

"""Ways of looking that change nothing: what heads attend to, and what kind of looking that is."""

from __future__ import annotations

from regard.data.conllu import read_conllu
from regard.errors import UserError
from regard.lens.heads import head_statistics
from regard.lens.merged import Attended, Choice, attended
from regard.lens.relations import relation_scores
from regard.lens.role_table import Roles
from regard.lens.roles import tallied
from regard.lens.subject import Subject
from regard.tasks.fresh import fresh
from regard.tasks.parsed import trees
from regard.tasks.repeated import repeated
from regard.tasks.show import Asked, Show
from regard.tasks.subject import subject_of
from regard.tasks.task import Answers
from regard.tasks.translator import Translator

SENTENCES = 500  # of a treebank
TEXTS = 50  # of these, where no text is given, are looked at for roles


def weights(answers: Answers, asked: Asked) -> Attended:
    choice = Choice(
        part=asked.part,
        layer=asked.layer,
        head=asked.head,
        words=asked.words,
        values=asked.values,
        specials=asked.specials or "keep",
    )
    return attended(asked.subject(answers), choice)


def roles(answers: Answers, asked: Asked) -> Roles:
    """Of a text, of the sentences of a treebank, or of both; beside the same model with random weights."""
    if asked.text is None and asked.data is None:
        raise UserError("--show roles needs a text, or --data FILE.conllu with sentences and their trees.")
    sentences = [] if asked.data is None else read_conllu(asked.data, SENTENCES)
    other = fresh(answers)
    subjects, theirs = list[Subject](), list[Subject]()
    if asked.text is not None:
        subjects = [asked.subject(answers)]
        written = subjects[0].title.partition(" → ")[2] if isinstance(answers, Translator) else asked.target
        theirs = [subject_of(other, asked.text, written or None)]
    relations, title = None, subjects[0].title if subjects else f"{asked.data}"
    if sentences:
        known, random = list(trees(answers, sentences)), list(trees(other, sentences))
        left = len(sentences) - len(known)
        told = f" ({left} of {len(sentences)} left out, which this model cannot read)" if left else ""
        relations = relation_scores(f"{asked.data}{told}", known, random)
        subjects += [] if subjects else [tree.subject for tree in known[:TEXTS]]
        theirs += [] if theirs else [tree.subject for tree in random[:TEXTS]]
    return Roles(title, tallied(subjects, repeated(answers)), tallied(theirs, repeated(other)), relations)


OBSERVED: dict[str, Show] = {
    "heads": Show(
        help="of every head, how spread, how far and on what it looks",
        compute=lambda answers, asked: head_statistics(asked.subject(answers)),
    ),
    "weights": Show(
        help="what was looked at, by any layer and head, by words, by what it brings, of any output of a search",
        compute=weights,
        takes=("target", "hypothesis", "part", "layer", "head", "words", "values", "specials"),
    ),
    "roles": Show(
        help="what each head is for, beside random weights; with --data FILE.conllu also which grammar it knows",
        compute=roles,
        needs=(),
        takes=("text", "target", "hypothesis", "data"),
    ),
}

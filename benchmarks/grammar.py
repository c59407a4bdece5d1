"""Which heads of MiniLM-L6 know English grammar: for each relation the best head, the best fixed offset, and random weights.

    REGARD_MINILM=FOLDER REGARD_DATA=FOLDER python -m benchmarks.grammar

After *What does BERT look at?* (Clark et al. 2019, section 4.2, table 1). Sentences of the English Web Treebank, of which nothing
was trained on here. Heads and offsets are chosen on every other sentence and scored on the rest; the same for the model with
random weights, so that the best of its heads is as lucky as it may be.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import measure
from benchmarks.real import DATA, MINILM, folder
from regard.commands.subjects import fresh, trees
from regard.data.sources.conllu import read_conllu
from regard.lens.analyses.relations import Relation, Relations, relation_scores
from regard.tasks.registry import open_run

SENTENCES = 800
LEAST = 40  # times that a relation is scored, for its row in the table


def measured(sentences: int = SENTENCES) -> Relations:
    answers = open_run(folder(MINILM), "cpu")
    parsed = read_conllu(folder(DATA, "ud_english_ewt", "dev.conllu.gz"), sentences)
    return relation_scores("English Web Treebank, dev", list(trees(answers, parsed)), list(trees(fresh(answers), parsed)))


def rows(found: Sequence[Relation]) -> list[list[str]]:
    return [
        [
            relation.name,
            f"{relation.count:,}",
            relation.direction,
            f"{relation.attention} {relation.head}",
            f"{relation.accuracy:.1%}",
            f"{relation.offset:+d}",
            f"{relation.offset_accuracy:.1%}",
            "" if relation.random is None else f"{relation.random:.1%}",
        ]
        for relation in found
    ]


def together(found: Sequence[Relation], which: str) -> float:
    """The share of all words, whatever their relation."""
    return sum(getattr(relation, which) * relation.count for relation in found) / sum(relation.count for relation in found)


def main() -> None:
    found = measured()
    often = [relation for relation in found.relations if relation.count >= LEAST]
    ahead = [relation for relation in often if relation.accuracy > relation.offset_accuracy]
    setting = (
        f"MiniLM-L6 (72 heads), {found.sentences:,} sentences: heads and offsets are chosen on every other one and scored on the "
        f"rest. Marks and the word itself do not count as looked at. {len(ahead)} of {len(often)} relations that are scored "
        f"{LEAST} times or more are found more often by a head than by any fixed offset. Of all words, each by its relation's "
        f"own: {together(found.relations, 'accuracy'):.1%} by heads, "
        f"{together(found.relations, 'offset_accuracy'):.1%} by offsets, "
        f"{together(found.relations, 'random'):.1%} by heads with random weights."
    )
    columns = ["relation", "scored", "direction", "best head", "finds it", "best offset", "finds it", "random weights"]
    table: measure.Table = {"title": "Relations, by how often they are scored", "columns": columns, "rows": rows(often)}
    written = measure.write(
        "grammar",
        title="Dependency relations in MiniLM's heads",
        setting=setting,
        rows=[],
        versions={},
        tables=[table],
    )
    print("\n".join(found.lines()))
    print(f"written: {written}")


if __name__ == "__main__":
    main()

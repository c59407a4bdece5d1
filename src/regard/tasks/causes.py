"""Ways of looking that change the model, or its input, to find out what matters."""

from __future__ import annotations

from regard.lens.ablation import ablation
from regard.lens.deletion import Deletion, deletion
from regard.lens.gradients import gradient_times_input, integrated_gradients
from regard.lens.importance import Importance, importance
from regard.lens.logit_lens import logit_lens
from regard.lens.positions import PositionAnalysis, positions_of
from regard.lens.rank import rank_collapse
from regard.lens.rollout import flow, rollout
from regard.tasks.examples import recipe_with_data, subjects
from regard.tasks.show import Asked, Show
from regard.tasks.task import Answers

TEXTS, DELETED = 200, 20  # of a file, how many are looked at


def _importance(answers: Answers, asked: Asked) -> Importance:
    """Of one text, or of many: those of a file, or else of the run's test set."""
    if asked.text is not None:
        return importance([asked.subject(answers)])
    return importance(subjects(answers, recipe_with_data(asked.run, asked.data), TEXTS))


def _deletion(answers: Answers, asked: Asked) -> Deletion:
    if asked.text is not None:
        return deletion([asked.subject(answers)])
    return deletion(list(subjects(answers, recipe_with_data(asked.run, asked.data), DELETED)))


def _positions(answers: Answers, asked: Asked) -> PositionAnalysis:
    return positions_of(answers.model, asked.run)


MANY = ("text", "data", "target", "hypothesis")
CAUSES: dict[str, Show] = {
    "ablation": Show(
        help="what is lost when each head alone is switched off",
        compute=lambda answers, asked: ablation(asked.subject(answers)),
    ),
    "importance": Show(
        help="how much the loss hangs on each head; of a text, of --data FILE, or of the test set",
        compute=_importance,
        needs=(),
        takes=MANY,
    ),
    "rollout": Show(
        help="the share of each word in each place after all layers",
        compute=lambda answers, asked: rollout(asked.subject(answers)),
    ),
    "flow": Show(
        help="the most that can flow from each word to each place through all layers",
        compute=lambda answers, asked: flow(asked.subject(answers)),
    ),
    "gradients": Show(
        help="what each word adds to each prediction, by gradient times input",
        compute=lambda answers, asked: gradient_times_input(asked.subject(answers)),
    ),
    "integrated": Show(
        help="what each word adds to each prediction, by integrated gradients",
        compute=lambda answers, asked: integrated_gradients(asked.subject(answers)),
    ),
    "logits": Show(
        help="what the model would say if it stopped at each layer",
        compute=lambda answers, asked: logit_lens(asked.subject(answers)),
    ),
    "deletion": Show(
        help="which explanation predicts the model when words are taken away; of a text, of --data FILE, or of the test set",
        compute=_deletion,
        needs=(),
        takes=MANY,
    ),
    "rank": Show(
        help="how different tokens are by depth, with and without skip connections and feed-forward layers",
        compute=lambda answers, asked: rank_collapse(asked.subject(answers)),
    ),
    "positions": Show(
        help="how alike positions are by distance, and whether a shift is a linear map",
        compute=_positions,
        needs=(),
        takes=(),
    ),
}

"""Any model of the project as a subject for lens: what its family reads, writes and is scored on, for one text.

`subject_writing.py` has those that write, `subject_image.py` those that write of an image, `subject_reading.py` those that say
something of each token, `subject_whole.py` those that say something of a whole text.
"""

from __future__ import annotations

from regard.data.captions import open_image
from regard.data.images import square
from regard.errors import UserError
from regard.families.elmo import ELMo
from regard.lens.subject import Subject
from regard.tasks.answerer import Answerer
from regard.tasks.caption_writer import CaptionWriter
from regard.tasks.classifier import Labeller
from regard.tasks.embedder import Embedder
from regard.tasks.filler import Filler
from regard.tasks.judge import Judge
from regard.tasks.rater import Rater
from regard.tasks.subject_image import of_image
from regard.tasks.subject_reading import of_filler, of_judge, of_tagger
from regard.tasks.subject_whole import of_answerer, of_embedder, of_labeller, of_rater
from regard.tasks.subject_writing import of_translator, of_writer
from regard.tasks.tagger import Tagger
from regard.tasks.task import Answers
from regard.tasks.translator import Translator
from regard.tasks.writer import Writer


def subject_of(answers: Answers, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
    """`text` as this model reads it, scored on `target`; by default on what the model says itself, or the text itself.

    A translator's target is a translation; a captioner's, a caption, and its text is the file of an image; a language model's,
    what follows the text; a filler's, a word for each blank; a tagger's, a tag for each word; a labeller's, a label; a rater's, a
    number; an answerer's, the answer; an embedder's, a text like this one. `hypothesis` is for those that search: the number,
    from 0, of what was found, instead of a target.
    """
    if not text.strip():
        raise UserError("the text is empty; give a sentence to look into.")
    if target is not None and not target.strip():
        raise UserError("the target is empty; give what the model should say, or leave it out.")
    if hypothesis is not None and target is not None:
        raise UserError(f"both a target and --hypothesis {hypothesis} were given; give one of them.")
    if hypothesis is not None and not isinstance(answers, Translator | Writer):
        raise UserError(f"--hypothesis {hypothesis} is for models that write, and this one does not; leave it out.")
    if isinstance(getattr(answers.model, "body", answers.model), ELMo):
        raise UserError("an ELMo has no attention to look into; see what it makes of a word with --word WORD instead of --show.")
    match answers:
        case Translator():
            return of_translator(answers, text, target, hypothesis)
        case Writer():
            return of_writer(answers, text, target, hypothesis)
        case Filler():
            return of_filler(answers, text, target)
        case Judge():
            return of_judge(answers, text, target)
        case Tagger():
            return of_tagger(answers, text, target)
        case Labeller():
            return of_labeller(answers, text, target)
        case Rater():
            return of_rater(answers, text, target)
        case Answerer():
            return of_answerer(answers, text, target)
        case Embedder():
            return of_embedder(answers, text, target)
        case CaptionWriter():
            return of_image(answers, square(open_image(text), answers.model.config.image_size), text, target)
    raise UserError("lens cannot look into a run of this kind yet; give a model that reads or writes text.")

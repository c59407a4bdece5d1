"""A trained model of visual questions: an image and a question in, the likeliest answers out, and where the model attended.

    regard predict RUN dog.png "what colour is the dog?" "is it asleep?"     questions about the image before them
    regard predict RUN --input questions.txt                                 lines IMAGE<TAB>QUESTION

Dims: B questions, L words, M cells, Y X rows and columns, of pixels or of cells; C colours or answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from regard.core.errors import UserError
from regard.core.terminal import Emit, print_stderr
from regard.data.batching.pairs import Ragged
from regard.data.batching.visual_questions import UNKNOWN, EncodedQuestions, make_batch, rows_in_order
from regard.data.image_config import VisualQuestionsConfig
from regard.data.sources.captions import open_image
from regard.data.sources.images import square
from regard.data.sources.visual_questions import VisualQuestion, VisualQuestions
from regard.decode.config import DecodeConfig
from regard.families import build_model
from regard.families.base import Heads
from regard.lens.analyses.image_heat import Heat
from regard.metrics.visual_questions import VisualAnswerScores
from regard.model.probe import probe
from regard.runs.folder import Run
from regard.runs.recipe import Recipe
from regard.runs.task import lazy
from regard.tasks.predictor import EvaluationResult, TextPredictor, list_mistakes, on_one_line, open_model
from regard.tasks.visual_questions.answers import FILE, Answers
from regard.text.tokenizer import Tokenizer

LIKELY = 5  # answers beside a heat map
SHOWN = 384  # pixels: a picture of heat maps shows the image at most so large
IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".ppm")
HEADER = ("image", "question", "answer", "predicted", "probability", "kind", "place")
HOW = "give an image and a question: regard predict RUN IMAGE.png 'what colour is the circle?', or lines IMAGE<TAB>QUESTION"


class Answer(NamedTuple):
    answer: str
    probability: float


@dataclass
class VisualAnswerer(TextPredictor):
    model: Any
    tokenizer: Tokenizer
    answers: Answers
    data: VisualQuestionsConfig
    decode: DecodeConfig
    run: Run | None = None  # where mistakes are listed

    example = "IMAGE.png\twhat colour is the circle?"
    routes = lazy("regard.tasks.visual_questions.serve:routes")

    @classmethod
    def of(cls, run: Run, recipe: Recipe, device: torch.device) -> VisualAnswerer:
        answers = Answers.load(run.folder / FILE)
        model, tokenizer = open_model(run, recipe, device, lambda size: built(recipe, size, len(answers)))
        return cls(model, tokenizer, answers, recipe.data, recipe.decode, run)

    def __call__(self, image: str, question: str) -> str:
        """Return the answer to a question about an image file, or about a built-in scene such as builtin:scenes/test/7."""
        return self.answer([(image, question)])[0][0].answer

    def answer(self, asked: Sequence[tuple[str, str]]) -> list[list[Answer]]:
        """Return the `data.n_best` answers to each question about the image with this name, the likeliest first."""
        probabilities_BC, _ = self.score(self.encode(asked))
        best_BK = np.argsort(-probabilities_BC, 1, kind="stable")[:, : self.data.n_best]
        return [
            [Answer(self.answers.names[n], float(row_C[n])) for n in best_K]
            for row_C, best_K in zip(probabilities_BC, best_BK.tolist())
        ]

    def encode(self, asked: Sequence[tuple[str, str]]) -> EncodedQuestions:
        """Read the images, each once, and the words of the questions."""
        numbers = {name: n for n, name in enumerate(dict.fromkeys(image for image, _ in asked))}
        side = self.model.config.image_size
        images_NYXC = np.stack([square(open_image(name), side) for name in numbers]) if numbers else np.empty(0, np.uint8)
        for _, question in asked:
            if not question.strip():
                raise UserError(f"a question is empty; {HOW}.")
        words, cut = encode_words(self.tokenizer, [question for _, question in asked], self.longest)
        if cut:
            print_stderr(f"{cut:,} of {len(asked):,} questions were longer than {self.longest} tokens and have been cut")
        owner = np.array([numbers[image] for image, _ in asked], np.int64)
        return EncodedQuestions(images_NYXC, owner, words, np.full(len(asked), UNKNOWN))

    @property
    def longest(self) -> int:
        return longest(self.data, self.model.config)

    @torch.no_grad()
    def score(self, data: EncodedQuestions) -> tuple[np.ndarray, np.ndarray]:
        """Return probabilities_BC of all answers, and the negative log-likelihood of each true one, nan where that is unknown."""
        probabilities_BC, nll_B = np.empty((len(data), len(self.answers)), np.float32), np.full(len(data), np.nan)
        for rows in rows_in_order(data, self.decode.batch_tokens):
            batch = make_batch(data, rows).to(self.device)
            log_BC = self.model(*batch.inputs).float().log_softmax(-1)
            probabilities_BC[rows] = log_BC.exp().cpu().numpy()
            known = data.answers[rows] != UNKNOWN
            true_B1 = batch.answers_B.clamp(min=0)[:, None]
            nll_B[rows] = np.where(known, -log_BC.gather(1, true_B1)[:, 0].cpu().numpy(), np.nan)
        return probabilities_BC, nll_B

    def predict(self, texts: Sequence[str], first: int | None, as_json: bool, emit: Emit) -> None:
        """`answer<TAB>probability` for each question; an empty line for an empty one. Machines get the `data.n_best` answers.

        Texts typed on the command line may be an image followed by questions about it; lines of a file are IMAGE<TAB>QUESTION.
        """
        asked = list(pairs_of(texts, typed=first is None))
        found = iter(self.answer([pair for pair in asked if pair is not None]))
        for pair in asked:
            best = [] if pair is None else next(found)
            if as_json:
                image, question = pair or ("", "")
                record = {"image": image, "question": question, "answers": [one._asdict() for one in best]}
                emit(json.dumps(record, ensure_ascii=False) + "\n")
            else:
                emit(f"{on_one_line(best[0].answer)}\t{best[0].probability:.4f}\n" if best else "\n")

    def evaluate(self, test: VisualQuestions) -> EvaluationResult[VisualAnswerScores]:
        """Score the answers, and list the mistakes in the run's folder."""
        asked, true = test.questions, [question.answer for question in test.questions]
        words, _ = encode_words(self.tokenizer, [question.question for question in asked], self.longest)
        numbers = self.answers.numbers(asked)
        probabilities_BC, nll_B = self.score(EncodedQuestions(test.images_NYXC, test.owner_Q, words, numbers))
        best_B = probabilities_BC.argmax(1)
        said = [self.answers.names[n] for n in best_B]
        scores = VisualAnswerScores.of(
            true,
            said,
            [self.answers.without_image(question.question) for question in asked],
            [question.kind for question in asked],
            self.answers.majority,
            nll=float(np.nanmean(nll_B)) if (numbers != UNKNOWN).any() else float("nan"),
            unknown=int((numbers == UNKNOWN).sum()),
        )
        return EvaluationResult(scores, said, self._list_mistakes(asked, said, probabilities_BC[np.arange(len(said)), best_B]))

    def _list_mistakes(self, asked: Sequence[VisualQuestion], said: Sequence[str], sure_B: np.ndarray) -> str:
        """List wrong answers, the surest first."""
        wrong = sorted((n for n, question in enumerate(asked) if question.answer != said[n]), key=lambda n: -sure_B[n])
        rows = [
            [q.name, q.question, q.answer, said[n], f"{sure_B[n]:.4f}", q.kind, q.place]
            for n, q in ((n, asked[n]) for n in wrong)
        ]
        return list_mistakes(self.run, "the surest first", HEADER, rows)

    def test_texts(self, test: VisualQuestions) -> Iterator[tuple[str, str | None]]:
        raise UserError("the test set of this run is questions about images; look at one: regard lens RUN IMAGE.png QUESTION.")

    def answer_heat(self, image: str, question: str) -> Heat:
        """Return where the model attended: a map for each word of the question, or one for the answer."""
        return self.heat_of(open_image(image), question)[0]

    def heat_of(self, picture: Image.Image, question: str) -> tuple[Heat, list[Answer]]:
        """Return the maps of an image that is open, and the likeliest answers."""
        if not question.strip():
            raise UserError(f"the question is empty; {HOW}.")
        words, _ = encode_words(self.tokenizer, [question], self.longest)
        image_1YXC = square(picture, self.model.config.image_size)[None]
        data = EncodedQuestions(image_1YXC, np.zeros(1, np.int64), words, np.full(1, UNKNOWN))
        with probe(self.model) as seen, torch.no_grad():
            logits_1C = self.model(*make_batch(data, np.array([0])).to(self.device).inputs)
        weights_LM = self.model.image_weights(seen)[0].float().cpu().numpy()
        side = round(weights_LM.shape[1] ** 0.5)
        likely = logits_1C[0].float().softmax(-1).topk(min(LIKELY, logits_1C.shape[1]))
        best = [Answer(self.answers.names[n], p) for n, p in zip(likely.indices.tolist(), likely.values.tolist())]
        answer, sure = best[0]
        maps = weights_LM / weights_LM.sum(-1, keepdims=True)
        whole = len(weights_LM) == 1
        labels, maps = ([f"→ {answer}"], maps) if whole else self._by_words(question, data.words[0].tolist(), maps)
        picture.thumbnail((SHOWN, SHOWN))
        layers = tuple(name for name in self.model.config.attentions if name.endswith(".cross"))
        title = f"{question} — {answer} ({sure:.1%})"
        return Heat(title, np.asarray(picture), tuple(labels), maps.reshape(-1, side, side), layers), best

    def _by_words(self, question: str, ids: Sequence[int], maps_LM: np.ndarray) -> tuple[list[str], np.ndarray]:
        """Return the words of a question, as spaces part them, and the mean map of each word's pieces."""
        text = self.tokenizer.decode(ids)
        owners = np.array([max(0, len(self.tokenizer.decode(ids[: n + 1]).split()) - 1) for n in range(len(ids))])
        words = text.split()
        maps = np.stack([maps_LM[: len(ids)][owners == n].mean(0) for n in range(len(words))])
        return words, maps


def pairs_of(texts: Sequence[str], *, typed: bool) -> Iterator[tuple[str, str] | None]:
    """Yield image and question of each question; None for an empty line."""
    image = ""
    for text in texts:
        if "\t" in text:
            name, _, question = text.partition("\t")
            if not (name.strip() and question.strip()):
                raise UserError(f"{text[:40]!r}: the {'question' if name.strip() else 'image'} is empty; {HOW}.")
            yield name.strip(), question.strip()
        elif not text.strip():
            if not typed:
                yield None
        elif typed and is_image(text.strip()):
            image = text.strip()
        elif typed and image:
            yield image, text.strip()
        else:
            raise UserError(f"{text[:40]!r} comes without an image; {HOW}.")
    if typed and image and len(texts) == 1:
        raise UserError(f"{image} comes without a question; {HOW}.")


def is_image(text: str) -> bool:
    """Return whether a text names an image: by its ending, a built-in scene, or a file."""
    return text.startswith("builtin:") or text.lower().endswith(IMAGES) or (len(text) < 256 and Path(text).is_file())


def built(recipe: Recipe, vocabulary: int, answers: int) -> Any:
    """Build the model of a recipe for so many words and answers."""
    heads = Heads(words=False, classes=answers)
    return build_model(recipe.model, recipe.train.seed, vocabulary=vocabulary, heads=heads)


def longest(data: VisualQuestionsConfig, config: Any) -> int:
    """Return the tokens that a question may have: learned positions end."""
    return min(data.maximum_question, config.context or data.maximum_question)


def encode_words(tokenizer: Tokenizer, questions: Sequence[str], most: int) -> tuple[Ragged, int]:
    """Return the ids of questions, cut to `most`, and how many were cut."""
    ids = tokenizer.encode_batch(list(questions))
    return Ragged([one[:most] for one in ids]), sum(len(one) > most for one in ids)

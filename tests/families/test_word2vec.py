"""Static word vectors: their tables, their scores, and what is drawn."""

import pytest
import torch

from regard.core.errors import UserError
from regard.families.word2vec import Word2Vec, Word2VecConfig

CONFIG = Word2VecConfig(width=5)


def test_word2vec_begins_with_contexts_of_zero_and_glove_with_both_tables_drawn():
    plain, counted = Word2Vec(CONFIG, 7, seed=3), Word2Vec(CONFIG, 7, seed=3, counted=True)
    assert not plain.contexts.weight.any()
    assert counted.contexts.weight.all()
    assert torch.equal(plain.words.weight, counted.words.weight)
    assert plain.words.weight.abs().max() <= 0.5 / 5  # as the authors' programs draw them
    assert torch.equal(plain.vectors(), plain.words.weight)
    assert torch.equal(counted.vectors(), counted.words.weight + counted.contexts.weight)


@pytest.mark.parametrize("counted", [False, True])
def test_scores_are_products_of_vectors_and_both_biases(counted):
    model = Word2Vec(CONFIG, 7, counted=counted)
    torch.nn.init.normal_(model.contexts.weight)
    if counted:
        torch.nn.init.normal_(model.word_bias_V)
        torch.nn.init.normal_(model.context_bias_V)
    words, contexts = torch.tensor([1, 4]), torch.tensor([[2, 3, 0], [6, 6, 5]])
    scores = model(words, contexts)
    for row, word in enumerate(words.tolist()):
        for place, context in enumerate(contexts[row].tolist()):
            expected = model.words.weight[word] @ model.contexts.weight[context]
            if counted:
                expected = expected + model.word_bias_V[word] + model.context_bias_V[context]
            torch.testing.assert_close(scores[row, place], expected)


def test_no_numbers_are_drawn_on_the_meta_device():
    with torch.device("meta"):
        assert Word2Vec(CONFIG, 10**9).words.weight.is_meta


@pytest.mark.parametrize("width", [0, 10_001])
def test_a_width_that_cannot_be_is_refused(width):
    with pytest.raises(UserError, match=f"model.width={width}"):
        Word2VecConfig(width=width)

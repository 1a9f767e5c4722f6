"""A small corpus says more when its words are spelled in other pieces each epoch."""

import pytest

from foretell.data.text.number_words import english_words, german_words
from foretell.data.text.tokenizer_training import learn_tokenizer
from foretell.model.pairs import PairBatches, Pairs
from foretell.model.subword_dropout import SubwordDropout

SRC = [english_words(number) for number in range(100, 140)]
TGT = [german_words(number) for number in range(100, 140)]


@pytest.fixture(scope="module")
def tokenizer():
    return learn_tokenizer([*SRC, *TGT], 330)


@pytest.fixture
def usual(tokenizer):
    return Pairs([tokenizer.encode(text) for text in SRC], [tokenizer.encode(text) for text in TGT])


@pytest.fixture
def make(tokenizer, usual):
    def make(**changes):
        given = {"longest_src": 90, "longest_tgt": 90, "dropout": 0.2, "seed": 0, **changes}
        return SubwordDropout(tokenizer=tokenizer, src=SRC, tgt=TGT, usual=usual, **given)

    return make


def test_every_epoch_spells_the_same_sentences_in_other_ways(tokenizer, make, usual):
    epochs = [make()(epoch) for epoch in (0, 1)]
    for pairs in epochs:
        assert [tokenizer.decode(ids) for ids in pairs.src] == SRC
        assert [tokenizer.decode(ids) for ids in pairs.tgt] == TGT
    assert epochs[0] != epochs[1]
    assert usual not in epochs


def test_an_epochs_spellings_depend_on_its_number_and_the_seed_alone(make):
    """A resumed training doesn't ask for the epochs in the order of an unbroken one."""
    used = make()
    used(0)
    assert used(1) == make()(1)
    assert used(1) != make(seed=1)(1)


def test_a_spelling_that_the_model_cannot_hold_gives_way_to_the_usual_one(make, usual):
    longest = max(map(len, usual.tgt))
    pairs = make(dropout=0.9, longest_tgt=longest)(0)
    assert max(map(len, pairs.tgt)) <= longest
    assert any(ids in usual.tgt for ids in pairs.tgt)
    assert max(map(len, pairs.src)) > max(map(len, usual.src))


def test_a_batch_counts_the_tokens_of_the_spelling_it_holds(make, usual):
    """Batches cut by the usual spelling would be of half as many tokens again, mostly padding."""
    batches = PairBatches(usual, 200, 0, make())
    for step in range(40):
        batch = batches(step)
        assert len(batch["src"]) * max(batch["src"].shape[1], batch["tgt"].shape[1] - 1) <= 200

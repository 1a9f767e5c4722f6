"""Pools, Spark and Dask hand on pickled what a worker raised: it must arrive, with all it told."""

import copy
import pickle

import pytest

from foretell.data.errors import BundleError, Refusal, RefusedSeriesError
from foretell.data.text.translation import RefusedSentencesError, SentenceRefusal
from foretell.runtime.queues.work import QueueFullError

ERRORS = (
    BundleError(["one.", "two."]),
    RefusedSeriesError([Refusal(0, "a", "bad."), Refusal(3, 7, "worse.")], ["answers"]),
    RefusedSentencesError([SentenceRefusal(1, "too long.")], ["eins", None]),
    QueueFullError("the queue is full.", 1.5),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("travel", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy])
def test_it_arrives_with_all_that_it_told(error, travel):
    arrived = travel(error)
    assert type(arrived) is type(error)
    assert (str(arrived), vars(arrived)) == (str(error), vars(error))

"""One loaded model for many threads: each gets what it would get alone, to the last bit.

A web service has a model and a thread a request. Were anything of a call kept in the model, answers
would now and then be another caller's.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from foretell.data.text.translation import TranslateOptions
from foretell.runtime import load_forecaster, load_translator

THREADS = 6
OPTIONS = (
    TranslateOptions(),
    TranslateOptions(beam_size=3, n_best=2),
    TranslateOptions(beam_size=2, prefix="one"),
    TranslateOptions(temperature=1.0, top_k=5, seed=11),
)


def at_once(asks):
    """Have every thread ask all questions, from another one on; their answers, in order."""
    begin = threading.Barrier(THREADS)

    def ask(thread):
        begin.wait()
        order = np.roll(np.arange(len(asks)), thread).tolist()
        return [(place, asks[place]()) for place in order]

    with ThreadPoolExecutor(THREADS) as pool:
        return [answer for answers in pool.map(ask, range(THREADS)) for answer in answers]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_forecaster(make_bundle, softplus, threads):
    model = load_forecaster(make_bundle(level=softplus), device="cpu", threads=threads)
    rng = np.random.default_rng(3)

    def table(number):
        lengths = rng.integers(1, 30, size=number + 1)
        return pd.concat(
            [
                pd.DataFrame(
                    {
                        "unique_id": f"{number}-{place}",
                        "ds": pd.date_range("2024-01-01", periods=length),
                        "y": rng.normal(size=length),
                    }
                )
                for place, length in enumerate(lengths)
            ]
        )

    def asking(frame, horizon):
        return lambda: model.forecast(frame, horizon, freq="D")

    asks = [asking(table(number), 1 + number) for number in range(4)]
    alone = [ask() for ask in asks]
    for place, answer in at_once(asks):
        pd.testing.assert_frame_equal(answer, alone[place], check_exact=True)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_translator(make_translator, threads):
    model = load_translator(make_translator(), device="cpu", threads=threads)
    texts = ["one two three", "the lamp is on .", "seven old ships", "", "the red door , the blue"]

    def asking(place, options):
        return lambda: model.translate(texts[place:] + texts[:place], options)

    asks = [asking(place, options) for place, options in enumerate(OPTIONS)]
    asks.append(lambda: model.score([("one two", "one three"), ("the lamp", "the door")]))
    asks.append(lambda: list(model.translate_stream(texts[0])))
    alone = [ask() for ask in asks]
    for place, answer in at_once(asks):
        assert repr(answer) == repr(alone[place])

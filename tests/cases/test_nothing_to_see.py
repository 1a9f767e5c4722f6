"""HC01: a row with nothing to attend to is NaN in other products, and NaN spreads over a batch."""

import numpy as np
import onnxruntime as ort
import pandas as pd
import pytest

from foretell.client import Client
from foretell.data.text.translation import TranslateOptions
from foretell.runtime import load
from foretell.server.background import serve_in_background
from foretell.server.models.repository import Repository

DAYS = pd.date_range("2024-01-01", periods=40)


@pytest.mark.parametrize(
    "hidden", [slice(None), slice(1, None)], ids=["all missing", "all but the first"]
)
def test_hc01_a_history_without_a_value_hurts_nobody(forecast, hidden):
    """Where something is seen at all, the model may answer; then it is a number."""
    good = pd.DataFrame({"unique_id": "good", "ds": DAYS, "y": np.sin(np.arange(40.0)) + 5})
    blank = pd.DataFrame({"unique_id": "blank", "ds": DAYS, "y": 3.0})
    blank.loc[blank.index[hidden], "y"] = np.nan
    answer, alone = forecast(pd.concat([blank, good]), 5), forecast(good, 5)
    assert np.isfinite(answer.table.iloc[:, 2:].to_numpy(dtype=float)).all()
    pd.testing.assert_frame_equal(answer.series("good"), alone.table, check_exact=True)
    assert ("blank" in answer.refusals) != (len(answer.series("blank")) > 0)
    if hidden == slice(None):
        assert "blank" in answer.refusals


@pytest.mark.parametrize("bundle", ["translator_bundle_path", "recurrent_bundle_path"])
@pytest.mark.parametrize("beam_size", [1, 4])
def test_hc01_an_empty_sentence_hurts_nobody(request, bundle, beam_size):
    """Within a batch of one caller, and of several."""
    translator = load(request.getfixturevalue(bundle), device="cpu", threads=1)
    options = TranslateOptions(beam_size=beam_size, attention=True)
    (alone,) = translator.translate(["twenty one"], options)
    repository = Repository.load(request.getfixturevalue(bundle), lambda path: translator)
    with serve_in_background(repository) as address, Client(address) as client:
        doors = (translator.translate, client.translate)
        for ask in doors:
            for texts in (["", "twenty one"], ["twenty one", "  ", ""]):
                answers = ask(texts, options)
                assert [one.text for one in answers] == [
                    alone.text if text.strip() else "" for text in texts
                ]
                found = answers[texts.index("twenty one")].hypotheses[0]
                assert found.token_log_probs == alone.hypotheses[0].token_log_probs
                assert np.isfinite(found.attention).all()


def test_hc01_is_what_onnxruntime_does():
    """So what stands above is needed: a masked softmax of nothing is NaN."""
    onnx = pytest.importorskip("onnx")
    text = """
        <ir_version: 10, opset_import: ["": 20]>
        masked_softmax (float[2, 3] scores, float[2, 3] mask) => (float[2, 3] p)
        { masked = Add (scores, mask) p = Softmax <axis = -1> (masked) }
    """
    session = ort.InferenceSession(onnx.parser.parse_model(text).SerializeToString())
    scores = np.zeros((2, 3), np.float32)
    mask = np.array([[0, 0, -np.inf], [-np.inf] * 3], np.float32)
    found = session.run(None, {"scores": scores, "mask": mask})[0]
    assert np.isnan(found[1]).all()
    np.testing.assert_array_equal(found[0], np.array([0.5, 0.5, 0], np.float32))

"""Whole tasks over the Open Inference Protocol: contexts and sentences in, answers out."""

import runpy
from pathlib import Path

import grpc
import numpy as np
import pytest

from foretell.protos.inference import inference_pb2 as wire
from foretell.protos.inference.inference_pb2_grpc import GRPCInferenceServiceStub

REQUESTS = runpy.run_path(str(Path(__file__).with_name("inference_requests.py")))
ask, read, refused = (REQUESTS[name] for name in ("ask", "read", "refused"))


@pytest.fixture
def stub(serving, make_forecaster, make_translator):
    with serving(demand=make_forecaster(), ende=make_translator()) as channel:
        yield GRPCInferenceServiceStub(channel)


def test_a_context_is_forecast(stub):
    context = np.array([[np.nan, 1.0, 2.0], [5.0, np.nan, 7.0]])
    response = stub.ModelInfer(ask("demand", context=context, parameters={"horizon": 2}))
    found = read(response)
    assert found["forecast"].tolist() == [[2.0, 2.0], [7.0, 7.0]]
    assert found["quantile_levels"].tolist() == [0.1, 0.5, 0.9]
    assert np.allclose(found["quantiles"][0, 0], [1.6, 2.0, 2.4])
    assert found["errors"] == ["", ""]
    assert (response.model_name, response.model_version) == ("demand", "1")


def test_the_horizon_is_the_models_unless_told(stub):
    assert read(stub.ModelInfer(ask("demand", context=np.ones((1, 5)))))["forecast"].shape == (
        1,
        16,
    )


def test_quantile_levels_are_a_list_in_a_text(stub):
    request = ask(
        "demand",
        context=np.ones((1, 5)),
        parameters={"horizon": 1, "quantile_levels": "0.9, 0.3"},
    )
    assert read(stub.ModelInfer(request))["quantile_levels"].tolist() == [0.9, 0.3]


def test_covariates_stand_in_their_places(serving, make_forecaster):
    model = make_forecaster(
        future_covariates=("promo", "price"), past_covariates=("visits",), static=("size",)
    )
    with serving(demand=model) as channel:
        stub = GRPCInferenceServiceStub(channel)
        context = np.array([[np.nan, 3.0], [4.0, 5.0]])
        covariates = np.arange(12.0).reshape(2, 2, 3)
        known = np.arange(8.0).reshape(2, 2, 2)
        response = stub.ModelInfer(
            ask(
                "demand",
                context=context,
                context_covariates=covariates,
                horizon_covariates=known,
                static=np.array([[10.0], [20.0]]),
            )
        )
    rows, future, _ = model.calls[0]
    assert rows.covariates.tolist() == covariates.reshape(4, 3)[[1, 2, 3]].tolist()
    assert rows.target.tolist() == [3.0, 4.0, 5.0]
    assert future.covariates.tolist() == known.reshape(4, 2).tolist()
    assert read(response)["forecast"].tolist() == [
        [3 + 1 + 10, 3 + 5 + 10],
        [5 + 9 + 20, 5 + 13 + 20],
    ]


def test_a_horizon_that_contradicts_the_covariates_is_refused(serving, make_forecaster):
    with serving(demand=make_forecaster(future_covariates=("promo",))) as channel:
        request = ask(
            "demand",
            context=np.ones((1, 3)),
            context_covariates=np.ones((1, 3, 1)),
            horizon_covariates=np.ones((1, 2, 1)),
            parameters={"horizon": 3},
        )
        refused(
            lambda: GRPCInferenceServiceStub(channel).ModelInfer(request),
            grpc.StatusCode.INVALID_ARGUMENT,
            "'horizon' is 3, but horizon_covariates has 2 steps",
        )


def test_a_bad_row_refuses_the_request_unless_errors_are_asked_for(stub):
    """A row of NaN among answers that nobody looks at would be taken for one of them."""
    context = np.array([[1.0, 2.0], [np.inf, 2.0], [3.0, 4.0]])
    request = ask("demand", context=context, parameters={"horizon": 1})
    refused(lambda: stub.ModelInfer(request), grpc.StatusCode.INVALID_ARGUMENT, "context[1]: ")
    for name in ("errors", "forecast"):
        request.outputs.add(name=name)
    found = read(stub.ModelInfer(request))
    assert list(found) == ["errors", "forecast"]
    assert found["errors"][0] == found["errors"][2] == ""
    assert "inf" in found["errors"][1]
    assert np.isnan(found["forecast"][1]).all()
    assert found["forecast"][[0, 2]].tolist() == [[2.0], [4.0]]


def test_sentences_are_translated_in_their_places(stub):
    request = ask("ende", request_id="7", sentences=["one two", "", "three"])
    response = stub.ModelInfer(request)
    found = read(response)
    assert found["translations"] == [["eno owt"], [""], ["eerht"]]
    assert found["num_translations"].tolist() == [1, 1, 1]
    assert found["errors"] == ["", "", ""]
    assert (response.id, response.model_version) == ("7", "1")


def test_fewer_translations_than_asked_for_are_counted(stub):
    """A blank has one; its other places hold nothing, of probability 0."""
    request = ask("ende", sentences=["one", ""], parameters={"n_best": 3, "beam_size": 4})
    found = read(stub.ModelInfer(request))
    assert found["translations"] == [["eno", "eno!", "eno!!"], ["", "", ""]]
    assert found["num_translations"].tolist() == [3, 1]
    assert np.isneginf(found["log_probs"][1, 1:]).all()
    assert np.isfinite(found["log_probs"][0]).all()


def test_outputs_come_as_asked(stub):
    request = ask("ende", outputs=["scores", "translations"], sentences=["one"])
    assert list(read(stub.ModelInfer(request))) == ["scores", "translations"]


def test_a_bad_sentence_refuses_the_request_unless_errors_are_asked_for(stub):
    request = ask("ende", sentences=["one", "long " * 60, "x" * 100_001])
    text = refused(lambda: stub.ModelInfer(request), grpc.StatusCode.INVALID_ARGUMENT)
    assert "sentences[1]: " in text
    assert "sentences[2]: " in text
    for name in ("translations", "errors"):
        request.outputs.add(name=name)
    found = read(stub.ModelInfer(request))
    assert found["translations"] == [["eno"], [""], [""]]
    assert [bool(reason) for reason in found["errors"]] == [False, True, True]


def test_every_option_reaches_the_search(serving, make_translator):
    model = make_translator()
    options = {
        "beam_size": 3,
        "n_best": 2,
        "length_penalty": 0.5,
        "length_formula": "gnmt",
        "min_length": 2,
        "max_length": 30,
        "max_length_ratio": 3,  # a whole number is a number
        "max_length_margin": 4,
        "patience": "2.5",  # for clients whose copy of the protocol has no double
        "no_repeat_ngram_size": 3,
        "repetition_penalty": 1.25,
        "banned": '["a", "b c"]',
        "prefix": "so",
        "temperature": 0.5,
        "top_k": 4,
        "top_p": 0.5,
        "seed": 2**40,
        "replace_unknowns": True,
        "truncate_source": True,
    }
    with serving(ende=model) as channel:
        GRPCInferenceServiceStub(channel).ModelInfer(
            ask("ende", sentences=["one"], parameters={**options, "first_place": 5})
        )
    _, (chosen,), first_place = model.calls[0]
    expected = options | {"banned": ("a", "b c"), "patience": 2.5}
    assert {name: getattr(chosen, name) for name in options} == expected
    assert first_place == 5


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"beam": 4}, "'beam' is not known"),
        ({"attention": True}, "'attention' is not known"),
        ({"sequence_id": 4}, "'sequence_id' is not known"),
        ({"beam_size": "4"}, "send a whole number"),
        ({"beam_size": 4.0}, "send a whole number"),
        ({"beam_size": True}, "send a whole number"),
        ({"beam_size": 2**40}, "send a smaller number"),
        ({"beam_size": 0}, "beam_size is 0"),
        ({"beam_size": 65}, "beam_size is 65"),
        ({"sample": 1}, "send a truth value"),
        ({"patience": "nan"}, "send a number"),
        ({"patience": "much"}, "send a number"),
        ({"length_formula": "long"}, "power or gnmt"),
        ({"banned": "a"}, "JSON list"),
        ({"banned": '{"a": 1}'}, "JSON list"),
        ({"banned": '["\\ud800"]'}, "JSON list"),
        ({"banned": "[" * 100_000}, "JSON list"),
        ({"first_place": -1}, "'first_place' is -1"),
        ({"timeout": -1}, "'timeout' is -1"),
        ({"priority": 2**40}, "'priority' is"),
        ({"stream": True}, "ModelStreamInfer"),
    ],
)
def test_a_parameter_that_means_nothing_is_refused_by_name(stub, parameters, words):
    """To pass over one would be to answer another question."""
    request = ask("ende", sentences=["one"], parameters=parameters)
    refused(lambda: stub.ModelInfer(request), grpc.StatusCode.INVALID_ARGUMENT, words)


@pytest.mark.parametrize("levels", ["", "a", "0.1;0.2", "0.5,", "9" * 200_000, "1.5", "nan"])
def test_levels_that_are_none_are_refused(stub, levels):
    request = ask("demand", context=np.ones((1, 4)), parameters={"quantile_levels": levels})
    refused(lambda: stub.ModelInfer(request), grpc.StatusCode.INVALID_ARGUMENT, "quantile")


def test_parameters_of_the_protocol_are_known_everywhere(stub):
    parameters = {"timeout": 60_000_000, "priority": 1}
    stub.ModelInfer(ask("demand", context=np.ones((1, 4)), parameters=parameters))
    request = ask("ende", sentences=["one"], parameters=parameters)
    request.parameters["priority"].uint64_param = 1  # as tritonclient sends it
    request.parameters["triton_enable_empty_final_response"].bool_param = True
    response = stub.ModelInfer(request)
    assert response.parameters["triton_final_response"].bool_param


def test_an_answer_can_be_read_by_people(stub):
    request = ask(
        "ende", sentences=["one two"], parameters={"binary_data_output": False}, request_id="a"
    )
    response = stub.ModelInfer(request)
    assert not response.raw_output_contents
    contents = {one.name: one.contents for one in response.outputs}
    assert list(contents["translations"].bytes_contents) == [b"eno owt"]
    assert list(contents["num_translations"].int64_contents) == [1]
    assert list(contents["truncated"].bool_contents) == [False]
    assert len(contents["scores"].fp64_contents) == 1


def test_typed_contents_say_the_same_as_raw_ones(stub):
    request = wire.ModelInferRequest(model_name="demand")
    context = request.inputs.add(name="context", datatype="FP64", shape=[2, 3])
    context.contents.fp64_contents.extend([1, 2, 3, 4, 5, 6])
    raw = ask("demand", context=np.arange(1.0, 7.0).reshape(2, 3))
    assert stub.ModelInfer(request) == stub.ModelInfer(raw)
    request = wire.ModelInferRequest(model_name="ende")
    sentences = request.inputs.add(name="sentences", datatype="BYTES", shape=[2])
    sentences.contents.bytes_contents.extend([b"one", "zwölf".encode()])
    assert stub.ModelInfer(request) == stub.ModelInfer(ask("ende", sentences=["one", "zwölf"]))

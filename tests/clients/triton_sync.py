"""Asks a server everything that tritonclient can ask; the address is the argument."""

import queue
import sys

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

STREAM_S = 60


def texts(*values):
    return np.array([value.encode() for value in values], dtype=object)


def tensor(name, array, datatype):
    given = triton.InferInput(name, list(array.shape), datatype)
    given.set_data_from_numpy(array)
    return given


def refused(call, status, word):
    error = caught(call)
    assert error is not None, f"not refused: {status} {word}"
    assert error.status() == f"StatusCode.{status}", error
    assert word in error.message(), error


def caught(call):
    try:
        call()
    except InferenceServerException as error:
        return error
    return None


def look(client):
    """The server, its models, and what they are."""
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("ende")
    assert client.is_model_ready("ende", "1")
    assert not client.is_model_ready("nope")
    assert client.get_server_metadata().name == "foretell"
    metadata = client.get_model_metadata("demand", as_json=True)
    assert metadata["inputs"] == [{"name": "context", "datatype": "FP64", "shape": ["-1", "-1"]}]
    config = client.get_model_config("ende").config
    assert config.input[0].name == "sentences"
    assert config.input[0].data_type == 13, "TYPE_STRING"
    assert config.parameters["kind"].string_value == "translator"
    index = client.get_model_repository_index()
    assert [(one.name, one.version, one.state) for one in index.models] == [
        ("demand", "1", "READY"),
        ("ende", "1", "READY"),
    ]
    assert [one.name for one in client.get_inference_statistics().model_stats] == ["demand", "ende"]


def ask(client):
    """Both tasks, with all that a request can carry."""
    context = np.array([[np.nan, 1.0, 2.0], [5.0, 6.0, 7.0]])
    answer = client.infer(
        "demand",
        [tensor("context", context, "FP64")],
        outputs=[triton.InferRequestedOutput(name) for name in ("quantiles", "forecast")],
        request_id="42",
        priority=1,
        timeout=60_000_000,
        parameters={"horizon": 3, "quantile_levels": "0.1,0.9"},
        compression_algorithm="gzip",
    )
    assert answer.as_numpy("forecast").tolist() == [[2.0] * 3, [7.0] * 3]
    assert answer.as_numpy("quantiles").shape == (2, 3, 2)
    assert answer.as_numpy("quantile_levels") is None
    response = answer.get_response()
    assert (response.id, response.model_version) == ("42", "1")
    assert [one.name for one in response.outputs] == ["quantiles", "forecast"]

    sentences = [tensor("sentences", texts("one zwölf", ""), "BYTES")]
    answer = client.infer("ende", sentences, parameters={"beam_size": 3, "n_best": 2})
    assert answer.as_numpy("translations").tolist() == [
        [b"eno " + "flöwz".encode(), b"eno " + "flöwz!".encode()],
        [b"", b""],
    ]
    assert answer.as_numpy("num_translations").tolist() == [2, 1]

    answers = queue.Queue()
    client.async_infer("ende", sentences, lambda result, error: answers.put((result, error)))
    result, error = answers.get(timeout=STREAM_S)
    assert error is None
    assert result.as_numpy("translations").shape == (2, 1)


def err(client):
    """What can't be: the right code each, and words to go by."""
    context = np.ones((1, 4))
    good = tensor("context", context, "FP64")
    for call, status, word in (
        (lambda: client.infer("nope", [good]), "NOT_FOUND", "Request for unknown model"),
        (lambda: client.infer("demand", [good], "9"), "NOT_FOUND", "version 9"),
        (lambda: client.infer("demand", [good], "x"), "INVALID_ARGUMENT", "version"),
        (
            lambda: client.infer("demand", [tensor("context", context.astype("f4"), "FP32")]),
            "INVALID_ARGUMENT",
            "inference input 'context' data-type is 'FP32', but model 'demand' expects 'FP64'",
        ),
        (
            lambda: client.infer("demand", [tensor("context", context[0], "FP64")]),
            "INVALID_ARGUMENT",
            "unexpected shape for input 'context' for model 'demand'",
        ),
        (
            lambda: client.infer("demand", [good], outputs=[triton.InferRequestedOutput("x")]),
            "INVALID_ARGUMENT",
            "unexpected inference output 'x' for model 'demand'",
        ),
        (
            lambda: client.infer("demand", [good], sequence_id=3, sequence_start=True),
            "INVALID_ARGUMENT",
            "'sequence_id' is not known",
        ),
        (
            lambda: client.infer("demand", [good], parameters={"horizn": 3}),
            "INVALID_ARGUMENT",
            "'horizn' is not known",
        ),
        (lambda: client.get_model_metadata("nope"), "NOT_FOUND", "Request for unknown model"),
        (lambda: client.get_inference_statistics("nope"), "NOT_FOUND", "unknown model"),
        (
            lambda: client.load_model("ende"),
            "FAILED_PRECONDITION",
            "explicit model load / unload is not allowed",
        ),
        (lambda: client.unload_model("ende"), "FAILED_PRECONDITION", "not allowed"),
        (client.get_trace_settings, "UNIMPLEMENTED", ""),
    ):
        refused(call, status, word)


def is_final(result):
    return result.get_response().parameters["triton_final_response"].bool_param


def stream(client):
    """Good, bad, good on one stream, answered as they are ready; and a translation word by word."""
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    sentence = [tensor("sentences", texts("one two"), "BYTES")]
    client.async_stream_infer("ende", sentence, request_id="a")
    client.async_stream_infer("ende", sentence, request_id="b", parameters={"beam": 1})
    client.async_stream_infer(
        "ende",
        sentence,
        request_id="c",
        parameters={"stream": True},
        enable_empty_final_response=True,
    )
    found, errors = {"a": [], "c": []}, []
    while len(found["a"]) + len(errors) < 2 or not (found["c"] and is_final(found["c"][-1])):
        result, error = answers.get(timeout=STREAM_S)
        if error is None:
            found[result.get_response().id].append(result)
        else:
            errors.append(error.message())
    (whole,), (text,), (*parts, last) = found["a"], errors, found["c"]
    assert whole.as_numpy("translations").tolist() == [[b"eno owt"]]
    assert text.startswith("[request id: b]"), text
    assert "'beam' is not known" in text
    assert b"".join(one.as_numpy("text")[0] for one in parts) == b"eno owt"
    assert last.as_numpy("translations").tolist() == [[b"eno owt"]]
    client.stop_stream()
    assert answers.empty()


def main():
    with triton.InferenceServerClient(sys.argv[1]) as client:
        for step in (look, ask, err, stream):
            step(client)


main()

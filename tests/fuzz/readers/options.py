"""Options of a search, as a message and as the parameters of another protocol's request."""

import runpy
from contextlib import suppress
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError

from foretell.protos.inference import inference_pb2
from foretell.protos.v1 import translator_pb2 as wire
from foretell.server.errors import MessageSizeError, RequestError
from foretell.server.inference.parameters import read_parameters
from foretell.server.inference.translations import TranslationInference
from foretell.server.models.served import Model
from foretell.server.options import ServerOptions
from foretell.server.services.translator_codec import read_sentences

FAKES = Path(__file__).resolve().parents[2] / "server"
LIMITS = ServerOptions(max_characters=2000)
Translator = runpy.run_path(str(FAKES / "fake_translator.py"))["FakeTranslator"]
SENTENCES = np.array([b"one"], dtype=object)


INFERENCE = TranslationInference(Model("ende", 1, Translator()), LIMITS)


def seeds():
    """Each option alone, and all of them."""
    yield b""
    whole = wire.TranslateOptions(
        beam_size=4,
        n_best=2,
        length_penalty=0.6,
        length_formula=wire.LengthFormula.LENGTH_FORMULA_GNMT,
        min_length=2,
        max_length=30,
        max_length_ratio=1.5,
        max_length_margin=5,
        patience=float("inf"),
        no_repeat_ngram_size=3,
        repetition_penalty=1.2,
        banned=["no", "never"],
        prefix="so",
        replace_unknowns=True,
        attention=True,
        truncate_source=True,
    )
    yield b"\0" + whole.SerializeToString()
    sampling = wire.TranslateOptions(
        beam_size=1, sample=True, temperature=0.7, top_k=5, top_p=0.9, seed=3
    )
    yield b"\0" + sampling.SerializeToString()
    request = inference_pb2.ModelInferRequest(model_name="ende")
    request.parameters["banned"].string_param = '["one", "two"]'
    request.parameters["length_formula"].string_param = "gnmt"
    request.parameters["length_penalty"].string_param = "0.6"
    request.parameters["beam_size"].int64_param = 4
    request.parameters["sample"].bool_param = False
    request.parameters["patience"].double_param = float("inf")
    request.parameters["first_place"].uint64_param = 2**63
    yield b"\1" + request.SerializeToString()


def parts(data):
    """What stands before the message, and the message."""
    kind = inference_pb2.ModelInferRequest if data[0] % 2 else wire.TranslateOptions
    return data[:1], kind.FromString(data[1:])


def read(data):
    """Read them or refuse them."""
    with suppress(DecodeError, RequestError, MessageSizeError):
        if not data[:1] or data[0] % 2 == 0:
            options = wire.TranslateOptions.FromString(data[1:])
            read_sentences(wire.TranslateRequest(sentences=["one"], options=[options]), LIMITS)
        else:
            request = inference_pb2.ModelInferRequest.FromString(data[1:])
            parameters = read_parameters(request, INFERENCE.signature.parameters)
            INFERENCE.read({"sentences": SENTENCES}, parameters.own)

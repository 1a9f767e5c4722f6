"""A manifest is all that serving knows of a model, so it must say all, and say it unchanged."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.data.bundles.bundle import (
    ForecasterSpec,
    GraphSpec,
    Manifest,
    TensorSpec,
    TranslatorSpec,
)
from foretell.data.errors import BundleError

GRAPH = "forecaster.onnx"
TRANSLATOR = TranslatorSpec(
    arch="recurrent",
    vocab_size=600,
    max_source_length=64,
    max_target_length=128,
    src_language="en",
    has_attention=True,
)


def make_manifest(**changes: object) -> Manifest:
    spec = ForecasterSpec(
        context_length=64,
        patch_length=8,
        horizon=24,
        frequency="h",
        season_length=24,
        quantile_levels=(0.1, 0.5, 0.9),
        future_covariates=("promo",),
    )
    manifest = Manifest(
        kind="forecaster",
        precision="fp32",
        config={"d_model": 64, "norm": "rms", "nested": {"digest": ""}},
        forecaster=spec,
        graphs=(
            GraphSpec(
                GRAPH,
                20,
                (TensorSpec("context", "float64", ("batch", "context_len")),),
                (TensorSpec("quantiles", "float64", ("batch", "horizon", 3)),),
            ),
        ),
        training={"mase": 0.93, "note": 'says "digest": ""', "ö": None},
        tool_versions={"torch": "2.13.0"},
    )
    return replace(manifest, **changes)  # type: ignore[arg-type]


class TestManifest:
    def test_what_is_written_is_what_is_read(self) -> None:
        manifest = make_manifest()
        assert Manifest.from_json(manifest.to_json()) == manifest

    def test_all_problems_are_listed_at_once(self) -> None:
        text = make_manifest().to_json()
        value = json.loads(text)
        del value["precision"]
        value["colour"] = "red"
        value["forecaster"]["horizon"] = "24"
        value["graphs"][0]["inputs"][0]["shape"] = [None]
        value["tool_versions"] = {"torch": 2}
        with pytest.raises(BundleError) as caught:
            Manifest.from_json(sign(value))
        message = str(caught.value)
        for part in (
            "manifest has the unknown key 'colour'.",
            "manifest lacks the key 'precision'.",
            "manifest.forecaster.horizon is '24'; expected a whole number.",
            "manifest.graphs[0].inputs[0].shape[0] is None; expected a text or a whole number.",
            "manifest.tool_versions['torch'] is 2; expected a text.",
        ):
            assert part in message
        assert len(caught.value.problems) == 5

    def test_a_boolean_is_no_number(self) -> None:
        value = json.loads(make_manifest().to_json())
        value["forecaster"]["context_length"] = True
        with pytest.raises(BundleError, match="context_length is True; expected a whole number"):
            Manifest.from_json(sign(value))

    @pytest.mark.parametrize("version", [0, 1, 3, "2", None])
    def test_another_format_version_is_refused_before_anything_else(self, version: object) -> None:
        with pytest.raises(BundleError, match=r"format version .*this foretell reads 2"):
            Manifest.from_json(json.dumps({"format_version": version}))

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", "3"])
    def test_text_that_is_no_manifest_is_refused(self, text: str) -> None:
        with pytest.raises(BundleError, match=r"manifest\.json"):
            Manifest.from_json(text)

    @settings(max_examples=200)
    @given(data=st.data())
    def test_no_byte_can_change_unseen(self, data: st.DataObject) -> None:
        raw = bytearray(make_manifest().to_json().encode())
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place] ^= data.draw(st.integers(1, 255))
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return  # `read_bundle` refuses it before there is a text
        with pytest.raises(BundleError):
            Manifest.from_json(text)

    def test_text_after_the_end_is_seen(self) -> None:
        with pytest.raises(BundleError, match="damaged"):
            Manifest.from_json(make_manifest().to_json() + "\n")

    @pytest.mark.parametrize(
        ("stored", "today"),
        [
            ("H", "h"),
            ("T", "min"),
            ("S", "s"),
            ("M", "ME"),
            ("Q", "QE"),
            ("A", "YE"),
            ("BM", "BME"),
            ("MS", "MS"),
        ],
    )
    def test_frequency_names_of_older_pandas_are_read_as_todays(
        self, stored: str, today: str
    ) -> None:
        """HA14. `M` must not become minutes, nor `MS` milliseconds."""
        from foretell.data.calendars.calendar import Frequency

        value = json.loads(make_manifest().to_json())
        value["forecaster"]["frequency"] = stored
        spec = Manifest.from_json(sign(value)).forecaster
        assert spec is not None
        assert spec.frequency == Frequency.parse(today).alias

    def test_a_forecaster_names_its_frequency_or_any(self) -> None:
        spec = make_manifest().forecaster
        assert spec is not None
        assert replace(spec, frequency="any").frequency == "any"
        with pytest.raises(BundleError, match="fortnightly"):
            replace(spec, frequency="fortnightly")

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"quantile_levels": (0.1, 0.9)}, "expected rising ones with 0.5"),
            ({"quantile_levels": (0.5, 0.1)}, "expected rising ones"),
            ({"quantile_levels": (0.0, 0.5)}, r"inside \(0, 1\)"),
            ({"context_length": 0}, "context_length is 0; expected 1 to"),
            ({"static": ("promo",)}, "column 'promo' has more than one role"),
        ],
    )
    def test_a_contradictory_forecaster_is_refused(
        self, changes: dict[str, object], message: str
    ) -> None:
        spec = make_manifest().forecaster
        assert spec is not None
        with pytest.raises(BundleError, match=message):
            replace(spec, **changes)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"forecaster": None}, "kind is 'forecaster', but forecaster is None"),
            ({"translator": TRANSLATOR}, "kind is 'forecaster', but translator is TranslatorSpec"),
            ({"kind": "translator", "forecaster": None}, "'translator', but translator is None"),
            (
                {"kind": "translator", "translator": TRANSLATOR},
                "kind is 'translator', but forecaster is ForecasterSpec",
            ),
        ],
    )
    def test_kind_and_content_must_agree(self, changes: dict[str, object], message: str) -> None:
        """Whoever loads a bundle asks for one kind and must find its specification, no other."""
        with pytest.raises(BundleError, match=re.escape(message)):
            make_manifest(**changes)

    def test_a_translator_is_read_as_it_was_written(self) -> None:
        manifest = make_manifest(kind="translator", forecaster=None, translator=TRANSLATOR)
        read = Manifest.from_json(manifest.to_json())
        assert read == manifest
        assert read.translator == TRANSLATOR

    def test_all_problems_of_a_translator_are_listed_at_once(self) -> None:
        manifest = make_manifest(kind="translator", forecaster=None, translator=TRANSLATOR)
        value = json.loads(manifest.to_json())
        value["translator"] |= {"arch": "convolution", "vocab_size": 7.5, "has_attention": 1}
        del value["translator"]["tgt_language"]
        with pytest.raises(BundleError) as caught:
            Manifest.from_json(sign(value))
        assert caught.value.problems == (
            "manifest.translator lacks the key 'tgt_language'.",
            "manifest.translator.arch is 'convolution'; expected one of "
            "'recurrent', 'transformer'.",
            "manifest.translator.vocab_size is 7.5; expected a whole number.",
            "manifest.translator.has_attention is 1; expected true or false.",
        )

    def test_a_contradictory_translator_is_refused_with_all_reasons(self) -> None:
        with pytest.raises(BundleError) as caught:
            replace(
                TRANSLATOR,
                vocab_size=4,
                max_source_length=1,
                max_target_length=2**31,
                src_language="e\nn",
            )
        assert caught.value.problems == (
            "vocab_size is 4; expected 5 to 2,147,483,647.",
            "max_source_length is 1; expected 2 to 2,147,483,647.",
            "max_target_length is 2147483648; expected 2 to 2,147,483,647.",
            "src_language is 'e\\nn'; expected a name of printable characters.",
        )

    def test_config_must_be_json(self) -> None:
        with pytest.raises(BundleError, match="no JSON value"):
            make_manifest(training={"loss": float("nan")}).to_json()

    def test_an_unknown_graph_is_named_with_those_there_are(self) -> None:
        assert make_manifest().graph(GRAPH).opset == 20
        with pytest.raises(
            BundleError, match=r"no graph 'encoder.onnx'; it has \['forecaster.onnx'"
        ):
            make_manifest().graph("encoder.onnx")


def sign(value: dict[str, object]) -> str:
    """Write a manifest of any content with a digest that is right for it."""
    import hashlib

    text = json.dumps({**value, "digest": ""})
    digest = hashlib.sha256(text.encode()).hexdigest()
    head, _, tail = text.rpartition('"digest": ""')
    return f'{head}"digest": "{digest}"{tail}'

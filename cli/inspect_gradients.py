"""`foretell inspect-gradients`: do a recurrent translator's gradients vanish or explode?"""

import itertools
import json
import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foretell.cli import parameters
from foretell.cli.messages import at_times, say
from foretell.data.errors import OptionError
from foretell.jobs.amounts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foretell.data.text.tokenizer import Tokenizer
    from foretell.jobs.pictures.gradients_plot import GradientPicture
    from foretell.model.gradients import Flow

EXAMPLE = "Example: foretell inspect-gradients runs/ende --src test.en --output gradients.png"
_BAND = (0.1, 0.9)  # of the sentences


def inspect_gradients(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a recurrent translator's training.")
    ],
    src: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Sentences to measure on, one a line, or - for stdin."),
    ] = None,
    sentences: Annotated[
        int, typer.Option(metavar="N", min=1, help="Most of them, from the first on.")
    ] = 32,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all numbers as JSON.")] = False,
    threads: parameters.Threads = None,
    overwrite: parameters.Overwrite = False,
) -> None:
    """Show how far back gradients reach in a recurrent translator.

    Prints the singular values of its recurrent weights and, with --src, the norms of the Jacobians
    between states of sentences that it translates, by lag; says whether they vanish or explode.
    Needs the extra [train].
    """
    from foretell.data.text.lines import read_lines
    from foretell.data.text.tokenizer import TOKENIZER_FILE, Tokenizer
    from foretell.jobs.output import check_outputs, check_stdout
    from foretell.jobs.pictures.gradients_plot import draw_gradients
    from foretell.jobs.pictures.plot import check_plot
    from foretell.model.gradients import measure_gradients, recurrent_model
    from foretell.model.run import read_run

    check_stdout()
    if output is not None:
        check_plot(output)
        check_outputs([output], overwrite=overwrite, inputs=[] if src is None else [src])
    found = read_run(run)
    model = recurrent_model(found)
    parameters.use_torch_threads(threads)
    sources: list[list[int]] = []
    if src is not None:
        tokenizer = Tokenizer.from_file(found.path / TOKENIZER_FILE)
        sources = _sources(tokenizer, read_lines(src), model.config.max_source_length, sentences)
    tell = at_times(say)
    flows = measure_gradients(
        model, sources, lambda done: tell(f"measuring: {done:,} of {len(sources):,} sentences")
    )
    name = f"{model.config.cell} cells, width {model.config.d_model}"
    if as_json:
        facts = {"run": str(found.path), "num_sentences": len(sources)}
        typer.echo(json.dumps({**facts, "layers": [_numbers(flow) for flow in flows]}, indent=2))
    else:
        typer.echo(f"{found.path}: {name}, {counted(len(sources), 'sentence')}")
        typer.echo("\n".join(_report(flows)))
    if output is not None:
        draw_gradients([_picture(flow) for flow in flows], output)
        say(f"-> {output}")


def _sources(
    tokenizer: "Tokenizer", lines: "Iterator[str]", longest: int, most: int
) -> list[list[int]]:
    """Encode the first sentences that the model can read and that have steps to look back on."""
    encoded = (tokenizer.encode(line) for line in lines)
    sources = list(itertools.islice((ids for ids in encoded if 1 < len(ids) < longest), most))
    if not sources:
        raise OptionError(
            f"--src holds no sentence of 2 to {longest - 1:,} pieces; give text that the model can "
            "translate."
        )
    return sources


def _report(flows: "Sequence[Flow]") -> "Iterator[str]":
    """Lay out the numbers and what they mean for people."""
    width = 2 + max(len(flow.name) for flow in flows)
    yield ""
    yield f"{'singular values of W':<{width + 10}}{'λ1':>9}{'median':>9}{'least':>9}"
    for flow in flows:
        for i, (gate, values) in enumerate(flow.singular_values.items()):
            label = f"{flow.name if i == 0 else '':<{width}}{gate:<10}"
            shown = (values[0], values[len(values) // 2], values[-1])
            yield label + "".join(f"{readable(float(value), 3):>9}" for value in shown)
    measured = [flow for flow in flows if flow.is_measured]
    if measured:
        lags = _shown_lags(max(len(flow.lags) for flow in measured))
        yield ""
        yield "".join(
            [f"{'‖∂h_t/∂h_k‖ at lag t - k':<{width + 16}}", *(f"{lag:>9}" for lag in lags)]
        )
        for flow in measured:
            yield from _norm_lines(flow, lags, width)
    yield ""
    for flow in flows:
        yield textwrap.fill(f"{flow.name}: {in_words(flow)}", 100, subsequent_indent="  ")
    if not measured:
        yield "Give sentences (--src FILE) to measure what becomes of gradients."


def _shown_lags(longest: int) -> list[int]:
    """1, 2, 4, … and the longest."""
    doubled = [2**i for i in range(longest.bit_length()) if 2**i < longest]
    return [*doubled, longest]


def _norm_lines(flow: "Flow", lags: "Sequence[int]", width: int) -> "Iterator[str]":
    low, high = (flow.quantile(level) for level in _BAND)
    rows = {"geometric mean": flow.mean, "10 %": low, "90 %": high, "bound by λ1": flow.bound}
    for i, (name, values) in enumerate(rows.items()):
        cells = [readable(float(values[lag - 1])) if lag <= len(values) else "" for lag in lags]
        row = "".join(f"{cell:>9}" for cell in cells)
        yield f"{flow.name if i == 0 else '':<{width}}{name:<16}{row}".rstrip()


def readable(number: float, digits: int = 2) -> str:
    """Write the digits that count, plainly where that is short: 0.0024, 480, 5.3e-30."""
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    mantissa, power = f"{number:.{digits - 1}e}".split("e")
    if not -4 <= int(power) < 4:
        return f"{mantissa}e{int(power)}"
    return f"{float(f'{mantissa}e{power}'):,.{max(0, digits - 1 - int(power))}f}"


def in_words(flow: "Flow") -> str:
    """Say what becomes of gradients, and what of it the singular values already say."""
    if not flow.is_measured:
        if flow.largest < 1 and len(flow.singular_values) == 1:
            return f"gradients vanish whatever the text, since λ1 = {flow.largest:.3g} < 1."
        return "the weights alone don't decide; the slopes and gates of sentences do."
    fate = {
        "vanish": "gradients vanish",
        "explode": "gradients explode",
        "kept": "gradients are kept",
    }[flow.verdict]
    reach = (
        f"after the {flow.reach} steps of the median sentence their size is × {readable(flow.left)}"
    )
    return f"{fate}: {_pace(flow)}; {reach}. {_why(flow)}"


def _pace(flow: "Flow") -> str:
    """Tell the rate, and the time it takes to matter."""
    half = "halved" if flow.rate < 1 else "doubled"
    return f"× {readable(flow.rate, 3)} a step, {half} in {readable(flow.half_life)} steps"


def _why(flow: "Flow") -> str:
    """Compare the measured rate with what singular values allow."""
    one_step = f"a single step has norm {readable(flow.effective)}"
    bound = f"× {readable(flow.bound_rate, 3)} a step"
    if flow.bound_rate < 1:
        return f"Singular values alone prove it: their bound is {bound}."
    allowed = f"Singular values would allow {bound}"
    if flow.rate < flow.effective:
        return f"{allowed}; {one_step}, and steps in a row don't all stretch the same way."
    return f"{allowed}; {one_step}."


def _numbers(flow: "Flow") -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": flow.name,
        "singular_values": {gate: values.tolist() for gate, values in flow.singular_values.items()},
        "words": in_words(flow),
    }
    if not flow.is_measured:
        return facts
    low, high = (flow.quantile(level).tolist() for level in _BAND)
    return {
        **facts,
        "verdict": flow.verdict,
        "rate": flow.rate,
        "half_life_steps": flow.half_life if math.isfinite(flow.half_life) else None,
        "steps": flow.reach,
        "left": flow.left,
        "step_norm": flow.effective,
        "bound_rate": flow.bound_rate,
        "lags": [int(lag) for lag in flow.lags],
        "norm": {"geometric_mean": flow.mean.tolist(), "q0.1": low, "q0.9": high},
        "bound": flow.bound.tolist(),
    }


def _picture(flow: "Flow") -> "GradientPicture":
    from foretell.jobs.pictures.gradients_plot import GradientPicture, NormCurves

    norms, note = None, ""
    if flow.is_measured:
        norms = NormCurves(
            lags=flow.lags,
            mean=flow.mean,
            low=flow.quantile(_BAND[0]),
            high=flow.quantile(_BAND[1]),
            bound=flow.bound,
            line=flow.line,
        )
        fate = {"vanish": "vanishing", "explode": "exploding", "kept": "kept"}[flow.verdict]
        note = f"{fate}: {_pace(flow)}"
    return GradientPicture(
        title=flow.name, note=note, norms=norms, singular_values=flow.singular_values
    )

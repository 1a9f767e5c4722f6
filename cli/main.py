"""The command `foretell`: finds the subcommand, and turns what went wrong into an exit code.

Exit codes: 0 all done, 1 failed, 2 wrong usage, 3 some items refused, 130 interrupted. Data go to
standard output, everything else to standard error.
"""

import gc
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from foretell.cli import (
    demo,
    evaluate,
    export,
    forecast,
    inspect,
    inspect_gradients,
    score,
    serve,
    token,
    train,
    translate,
    verify,
)
from foretell.cli.messages import say, say_error
from foretell.cli.nudges import nudge_waits
from foretell.cli.ray_options import with_address
from foretell.data.errors import ForetellError, OptionError, TableWarning
from foretell.jobs.lines.option_names import problem_as_options
from foretell.model.ranks import FirstFailedError, world_size

_EXIT_CODES = (
    "Exit codes: 0 all done, 1 failed, 2 wrong usage, 3 some items refused, 130 interrupted."
)

_INTERRUPTED = 130

_YOUNG_OBJECTS = 20_000  # that are new before a look at them; Python's own number is 700

_EXTRA_OF = dict.fromkeys(("torch", "onnx", "onnxscript", "lightning_fabric"), "train")
_EXTRA_OF |= {"sacrebleu": "evaluate", "matplotlib": "plot", "ray": "ray", "ray.data": "ray"}


class _Commands(TyperGroup):
    """Tells of an interruption, and of a closed pipe, itself: click would end without a word."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise typer.Exit(_interrupted(interrupt)) from interrupt
        except BrokenPipeError as error:
            with suppress(OSError, ValueError):  # what waits in its buffer would fail once more
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            say_error("whoever read standard output has closed it; the rest is not written.")
            raise typer.Exit(1) from error


# Plain messages: boxes and colours break logs, and wrapping breaks the paths inside messages.
app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"foretell {version('foretell')}")
        raise typer.Exit


@app.callback(epilog=_EXIT_CODES)
def foretell(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Train forecasters and translators, prove their ONNX export, serve them over gRPC.

    Every command shows an example: foretell COMMAND --help.
    """


app.command("demo", epilog=demo.EXAMPLE)(demo.demo)
app.add_typer(train.app, name="train")
app.command("export", epilog=export.EXAMPLE)(export.export)
app.command("verify", epilog=verify.EXAMPLE)(verify.verify)
app.command("inspect", epilog=inspect.EXAMPLE)(inspect.inspect)
app.command("inspect-gradients", epilog=inspect_gradients.EXAMPLE)(
    inspect_gradients.inspect_gradients
)
app.command("serve", epilog=serve.EXAMPLE)(serve.serve)
app.command("token", epilog=token.EXAMPLE)(token.token)
app.command("forecast", epilog=forecast.EXAMPLE)(forecast.forecast)
app.command("translate", epilog=translate.EXAMPLE)(translate.translate)
app.command("score", epilog=score.EXAMPLE)(score.score)
app.add_typer(evaluate.app, name="evaluate")


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code.

    What a user, a file or the machine did wrong is told in plain words; only a fault of foretell's
    own shows a traceback.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", TableWarning)
            warnings.showwarning = _show_warning
            app(args=with_address(arguments), prog_name="foretell")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except ForetellError as error:
        _ignore_the_end()
        # Of options speak the errors of options, and plain ones such as those of a resumed run.
        of_options = isinstance(error, OptionError) or type(error) is ForetellError
        if not isinstance(error, FirstFailedError):  # the first says why
            say_error(problem_as_options(str(error)) if of_options else str(error))
        _say_notes(error)
        return 2 if isinstance(error, OptionError) else 1
    except KeyboardInterrupt as interrupt:
        return _interrupted(interrupt)
    except ModuleNotFoundError as error:
        extra = _EXTRA_OF.get(error.name or "")
        if extra is None:
            raise
        say_error(f"{error.name} is not installed; pip install 'foretell[{extra}]'.")
        return 1
    except OSError as error:
        say_error(f"{error.filename or 'input or output'}: {error.strerror or error}.")
        _say_notes(error)
        return 1
    return 0


def main() -> None:
    """Run the command line of this process; SIGTERM and SIGHUP end it as Ctrl-C does."""
    # Read when gRPC is imported. Below errors it writes lines of its own about every failed
    # handshake, between a server's JSON and above a client's message.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    _occupy_closed_streams()
    for number in (signal.SIGTERM, signal.SIGHUP):  # nohup ignores the latter, and so do we
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    if sys.argv[1:2] != ["serve"]:  # whose event loop hears all, and who forks before any thread
        nudge_waits()
    # What is imported stays to the end, and the end frees it all: to look through it again and
    # again takes a third of a second of every command.
    gc.set_threshold(_YOUNG_OBJECTS)
    code = run(sys.argv[1:])
    gc.freeze()
    sys.exit(code)


def _occupy_closed_streams() -> None:
    """Where a standard stream is closed, the next file that is opened would get its number.

    Whatever a library then writes as a message would stand in a journal or an output.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _ignore_the_end() -> None:
    """Let this process of several say its last words: `torchrun` ends all when one has failed."""
    if world_size() > 1:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _interrupted(interrupt: KeyboardInterrupt) -> int:
    from foretell.model.interrupt import TrainingStopped

    _ignore_the_end()
    if isinstance(interrupt, TrainingStopped):
        steps = "1 step is" if interrupt.step == 1 else f"all {interrupt.step:,} steps are"
        say(f"interrupted: {steps} saved; go on with --resume")
    else:
        say("interrupted")
        _say_notes(interrupt)
    return _INTERRUPTED


def _say_notes(error: BaseException) -> None:
    """Tell what a job that has failed has kept."""
    for note in getattr(error, "__notes__", ()):
        say(note)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    say(f"warning: {message}")


if __name__ == "__main__":
    main()

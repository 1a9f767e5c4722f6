"""What is told of the folder of a training run: whether it goes on, starts anew, or is done."""

from dataclasses import dataclass
from pathlib import Path

from foretell.cli.messages import say
from foretell.data.errors import OptionError


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run's folder as it was before the training.

    Attributes:
        path: The folder.
        had_finished: It is resumed, though nothing is left to do.
    """

    path: Path
    had_finished: bool

    @classmethod
    def look(cls, path: Path, *, resume: bool, overwrite: bool) -> "RunFolder":
        """Look into the folder; say it where there is nothing to go on with.

        Raises:
            OptionError: The run is to go on, and to start anew.
        """
        if resume and overwrite:
            raise OptionError("--resume goes on, --overwrite starts anew; give one of them.")
        # Names of model.run, which can't be asked without torch.
        if resume and not (path / "inputs.json").exists():
            say(f"there is no training run in {path} to go on with; it starts anew")
        return cls(path, had_finished=resume and (path / "run.json").exists())

    def report(self, summary: str) -> None:
        """Tell what the training came to."""
        if self.had_finished:
            say(f"the training in {self.path} had finished already; nothing was left to do")
        else:
            say(summary)

"""`foretell train`: from data to weights."""

import typer

from foretell.cli import train_forecaster, train_translator

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Train a model."""


app.command("forecaster", epilog=train_forecaster.EXAMPLE)(train_forecaster.forecaster)
app.command("translator", epilog=train_translator.EXAMPLE)(train_translator.translator)

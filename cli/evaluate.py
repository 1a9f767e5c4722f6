"""`foretell evaluate`: how good a model is."""

import typer

from foretell.cli import evaluate_forecaster, evaluate_translator

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Measure a model on data."""


app.command("forecaster", epilog=evaluate_forecaster.EXAMPLE)(evaluate_forecaster.forecaster)
app.command("translator", epilog=evaluate_translator.EXAMPLE)(evaluate_translator.translator)

"""A table of random walks, for programs that ask for forecasts of many series."""

import numpy as np
import pandas as pd


def random_walks(num_series: int, steps: int) -> pd.DataFrame:
    """Random walks of as many days, a row a step."""
    rng = np.random.default_rng(5)
    ids = np.repeat([f"s{number:06}" for number in range(num_series)], steps)
    days = np.tile(pd.date_range("2024-01-01", periods=steps), num_series)
    walks = rng.normal(size=(num_series, steps)).cumsum(axis=1).ravel()
    return pd.DataFrame({"unique_id": ids, "ds": days, "y": walks})

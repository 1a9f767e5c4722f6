"""Forecasts and translations inside Spark: a loaded model is a function that Spark hands around.

`python tests/benchmarks/spark_forecast.py FORECASTER TRANSLATOR` (bundles; needs pyspark and Java)
forecasts generated series with `applyInPandas` and translates lines with a pandas function, both on
two workers, compares every number and text with those of this process, and tells the times of both.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from random_walks import random_walks

from foretell.data.errors import RefusedSeriesError
from foretell.runtime import load_forecaster, load_translator

HORIZON, STEPS, LEVELS = 24, 200, (0.1, 0.5, 0.9)
GROUPS = 8  # some for each core; a group's series are asked together


def forecast_in_spark(spark: SparkSession, table: DataFrame, path: Path) -> DataFrame:
    """Forecast every series of a table, whole series in one place and many of them at a time."""
    # One thread: Spark itself gives every core a task. A broadcast is unpickled once a worker, a
    # model that the function itself holds once a task.
    shared = spark.sparkContext.broadcast(load_forecaster(path, threads=1))

    def forecast(series: pd.DataFrame) -> pd.DataFrame:
        try:
            return shared.value.forecast(
                series, HORIZON, quantiles=LEVELS, allow_other_frequency=True
            )
        except RefusedSeriesError as refused:
            return refused.forecast  # all other series

    levels = [f"q{level:g}" for level in LEVELS]
    answer = t.StructType(
        [
            t.StructField("unique_id", t.StringType()),
            t.StructField("ds", t.TimestampNTZType()),
            *[t.StructField(name, t.DoubleType()) for name in ("forecast", *levels)],
        ]
    )
    group = f.abs(f.hash("unique_id")) % GROUPS
    return table.groupBy(group).applyInPandas(forecast, answer)


def translate_in_spark(texts: DataFrame, path: Path) -> DataFrame:
    """Translate a column of texts."""
    translator = load_translator(path, threads=1)

    @f.pandas_udf("string")
    def translate(lines: pd.Series) -> pd.Series:
        return pd.Series([found.text for found in translator.translate(lines.tolist())])

    return texts.withColumn("translation", translate("text"))


def timed(work):
    """Do it twice; its answer, and the seconds of the second time, when all is warm."""
    work()
    start = time.perf_counter()
    answer = work()
    return answer, time.perf_counter() - start


def main() -> None:
    """Compare, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("forecaster", type=Path)
    parser.add_argument("translator", type=Path)
    parser.add_argument("--series", type=int, default=2000)
    parser.add_argument("--lines", type=int, default=4000)
    given = parser.parse_args()

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", GROUPS)
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")

    table = random_walks(given.series, STEPS)
    frame = spark.createDataFrame(table).withColumn("ds", f.col("ds").cast("timestamp_ntz"))
    frame = frame.repartition(GROUPS).cache()
    there, spark_s = timed(lambda: forecast_in_spark(spark, frame, given.forecaster).toPandas())
    model = load_forecaster(given.forecaster, threads=2)
    here, here_s = timed(
        lambda: model.forecast(table, HORIZON, quantiles=LEVELS, allow_other_frequency=True)
    )
    there = there.sort_values(["unique_id", "ds"], ignore_index=True).astype(here.dtypes)
    pd.testing.assert_frame_equal(there, here, check_exact=True)
    print(
        f"{given.series:,} series, the same to the last bit: Spark {spark_s:.1f} s, "
        f"in process {here_s:.1f} s"
    )

    words = ["seven", "twenty one", "sixty four", "ninety nine", "", "eleven"]
    lines = [words[number % len(words)] for number in range(given.lines)]
    texts = spark.createDataFrame(pd.DataFrame({"place": range(given.lines), "text": lines}))
    texts = texts.repartition(GROUPS).cache()
    there, spark_s = timed(
        lambda: translate_in_spark(texts, given.translator).orderBy("place").toPandas()
    )
    translator = load_translator(given.translator, threads=2)
    here, here_s = timed(lambda: [found.text for found in translator.translate(lines)])
    assert there["translation"].tolist() == here
    print(f"{given.lines:,} lines, the same: Spark {spark_s:.1f} s, in process {here_s:.1f} s")
    spark.stop()


if __name__ == "__main__":
    main()

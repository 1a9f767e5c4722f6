"""What a reader sees of a report, in a real browser: it must fit a phone, and fetch nothing."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from foretell.data.series.options import Columns, ForecastOptions
from foretell.jobs.evaluation.backtest import lay_backtest, measure
from foretell.jobs.report.page import write_report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to open pages in")

# Words outside their picture, and pairs of words in one picture that overlap.
CROWDED = """
(() => {
  const wrong = [];
  for (const svg of document.querySelectorAll('svg[role=img]')) {
    const frame = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent,
      t.getBoundingClientRect()]);
    boxes.forEach(([word, box], i) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
          box.top < frame.top - 1 || box.bottom > frame.bottom + 1) wrong.push([word, 'outside']);
      for (const [other, of] of boxes.slice(i + 1))
        if (box.left < of.right && of.left < box.right && box.top + 2 < of.bottom - 2 &&
            of.top + 2 < box.bottom - 2) wrong.push([word, other]);
    });
  }
  return wrong;
})()
"""
WIDE = """
[...document.querySelectorAll('body *')].filter(e => !e.closest('.unseen') &&
  !e.closest('.scores thead') && e.getBoundingClientRect().right > innerWidth + 1)
  .map(e => e.outerHTML.slice(0, 80))
"""


EXEC_WITH_PIPES = """
import os, sys
for high, given in ((100, sys.argv[1]), (101, sys.argv[2])):
    os.dup2(int(given), high)
os.dup2(100, 3)
os.dup2(101, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """A headless chromium, spoken to in its own protocol over pipes.

    Attributes:
        events: What it told unasked.
    """

    def __init__(self, to, back):
        self.to, self.back = to, back
        self.events, self._number, self._session = [], 0, None
        page = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Network", "Runtime", "Log", "Page"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **params):
        self._number += 1
        question = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            question["sessionId"] = self._session
        self.to.write(json.dumps(question).encode() + b"\0")
        self.to.flush()
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, path, *, width, dark=False):
        self.events.clear()
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def value(self, expression):
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def told(self, *methods):
        return [event["params"] for event in self.events if event.get("method") in methods]

    def _next(self):
        message = bytearray()
        while (byte := self.back.read(1)) != b"\0":
            assert byte, "the browser has ended"
            message += byte
        return json.loads(message)


@contextmanager
def started(profile):
    """Start it with its pipes as descriptors 3 (what it reads) and 4 (what it writes)."""
    reads, to = os.pipe()
    back, writes = os.pipe()
    command = [
        *(sys.executable, "-c", EXEC_WITH_PIPES, str(reads), str(writes)),
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"),
        *("--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={profile}"),
    ]
    process = subprocess.Popen(
        command,
        pass_fds=(reads, writes),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(reads)
    os.close(writes)
    try:
        with os.fdopen(to, "wb") as sink, os.fdopen(back, "rb") as source:
            yield Browser(sink, source)
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # its own group: the helpers that it started too
        process.wait()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with started(tmp_path_factory.mktemp("profile")) as own:
        yield own


@pytest.fixture
def report(stand_in, tmp_path):
    """Ids that try to run, to be drawn outside, and numbers of all sizes."""
    rng = np.random.default_rng(1)
    ids = ("a", "<script>boom()</script>", "x" * 300, "two words " * 9, "flat", "b", "c", "d")
    days = pd.date_range("2024-01-20", periods=90)
    wave = 5 * np.sin(np.arange(90) * 2 * np.pi / 7)
    table = pd.concat(
        pd.DataFrame(
            {
                "unique_id": name,
                "ds": days,
                "y": 4.0 if name == "flat" else (wave + rng.normal(size=90) - i) * 10.0 ** (3 * i),
            }
        )
        for i, name in enumerate(ids)
    )
    twice = pd.DataFrame({"unique_id": "<b>twice</b>", "ds": days[[0, 0]], "y": 1.0})
    model = stand_in()
    answer = model.forecast_rows

    def widened(rows, future, options):
        found = answer(rows, future, options)
        width = np.abs(found.forecast[:, :, None]) * (np.array(options.quantile_levels) - 0.5)
        return replace(found, quantiles=found.forecast[:, :, None] + width)

    model.forecast_rows = widened
    backtest = lay_backtest(
        pd.concat([table, twice]),
        model,
        columns=Columns(),
        options=ForecastOptions(horizon=14),
        num_windows=3,
    )
    target = tmp_path / "report.html"
    found = measure(backtest, ["SeasonalNaive", "Naive2", "Theta", "Ridge"])
    write_report(backtest, found, target, data="a/long/path/" * 9, model="models/demand")
    return target


@pytest.mark.parametrize("width", [1280, 390])
def test_a_report_fits_the_page_and_fetches_nothing(browser, report, width):
    browser.open(report, width=width)
    assert browser.value("document.documentElement.scrollWidth") <= width
    browser.value("document.querySelector('details').open = true")
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value(WIDE) == []
    assert not browser.value(CROWDED)
    asked = [event["request"]["url"] for event in browser.told("Network.requestWillBeSent")]
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
    wrong = browser.told("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
    assert wrong == []


def test_dark_is_dark(browser, report):
    paper = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    for dark in (True, False):
        browser.open(report, width=800, dark=dark)
        assert (max(browser.value(paper)) < 100) == dark

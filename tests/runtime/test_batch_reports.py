"""What is told of a batch, and when."""

import time

from foretell.runtime.queues.scheduler import Scheduler
from foretell.runtime.queues.work import Row

WAIT_S = 20.0


def result(request):
    return request.done.result(WAIT_S)


def test_a_batch_is_told_of_before_its_last_caller_hears():
    reports = []
    scheduler = Scheduler(threads=1, on_batch=reports.append)
    request = scheduler.admit()

    def run(batch):
        batch.put(0)
        batch.put(1)

    request.begin([Row(run, "k", None, 0.1, items, 8) for items in (3, 4)])
    result(request)
    (report,) = reports
    assert (report.requests, report.items, report.padded_items) == (1, 7, 16)
    assert len(report.queue_s) == 1
    assert min(*report.queue_s, report.compute_s) >= 0


def test_a_report_tells_graphs_from_what_lies_around_them():
    reports = []
    scheduler = Scheduler(threads=1, on_batch=reports.append)

    def run(batch):
        for _ in range(2):
            with batch.stop.calling(lambda: None):
                times.append(time.monotonic())
        batch.put(0)

    times = []
    request = scheduler.admit()
    request.begin([Row(run, "k", None)])
    result(request)
    (report,) = reports
    assert report.input_s >= 0
    assert report.output_s >= 0
    assert report.compute_s - report.input_s - report.output_s >= times[1] - times[0]


def test_what_is_told_before_a_batch_hears_of_its_end():
    told = []

    def begin(batch):
        told.append([queued.request.caller for queued in batch.rows])
        return told.append

    scheduler = Scheduler(threads=1, on_begin=begin)

    def run(batch):
        if batch.tasks == ("bad",):
            raise ValueError("bad")
        batch.put(0)

    for task in ("good", "bad"):
        request = scheduler.admit()
        request.caller = task
        request.begin([Row(run, "k", task)])
        request.done.exception(WAIT_S)
    assert told == [["good"], False, ["bad"], True]

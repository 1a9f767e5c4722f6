"""The gate before work on the event loop: one passes every other iteration, nobody is forgotten."""

import asyncio
from itertools import pairwise

from foretell.server.calls.turnstile import Turnstile


async def count_iterations(done):
    count = 0
    while not done():
        await asyncio.sleep(0)
        count += 1
    return count


def test_whoever_comes_alone_passes_at_once():
    """An idle server's answers shall not take an iteration longer for it."""

    async def run():
        turnstile = Turnstile()
        for _ in range(3):
            passing = turnstile.pass_through(object())
            try:
                passing.send(None)
            except StopIteration:
                pass
            else:
                raise AssertionError("it had to wait")
            await asyncio.sleep(0)

    asyncio.run(run())


def test_one_passes_every_other_iteration_and_in_the_order_they_came():
    async def run():
        turnstile, passed, iteration = Turnstile(), [], 0

        async def work(number):
            await turnstile.pass_through(number)
            passed.append((number, iteration))

        tasks = [asyncio.create_task(work(number)) for number in range(40)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            iteration += 1
        return passed

    passed = asyncio.run(run())
    assert [number for number, _ in passed] == list(range(40))
    times = [at for _, at in passed]
    assert all(later - at >= 2 for at, later in pairwise(times)), "two passed next to each other"
    assert times[-1] <= 80, "two iterations went by in which nobody passed"


def test_who_is_in_goes_on_while_nobody_waits():
    """A lone call's pieces are one, and cost no iterations; beside others each is a turn."""

    async def run(names):
        turnstile, passed = Turnstile(), []

        async def work(name):
            for _ in range(3):
                await turnstile.pass_through(name)
                passed.append(name)

        for passing in map(work, names):
            asyncio.get_running_loop().call_soon(asyncio.create_task, passing)
        while len(passed) < 3 * len(names):
            at_first = len(passed)
            await asyncio.sleep(0)
        return "".join(passed), at_first

    assert asyncio.run(run("a")) == ("aaa", 0), "it had to wait"
    assert asyncio.run(run("abc"))[0] == "aaabcbcbc", "b went on before c, who waited"


def test_what_needs_several_iterations_waits_for_few_of_many_others():
    """This is what it is for: 100 calls that work, and a question about health beside them."""

    async def run(turnstile):
        worked = 0

        async def work(number):
            nonlocal worked
            for _ in range(3):
                if turnstile is not None:
                    await turnstile.pass_through(number)
                worked += 1
                await asyncio.sleep(0)

        async def quick():
            for _ in range(5):
                await asyncio.sleep(0)
            return worked

        tasks = [asyncio.create_task(work(number)) for number in range(100)]
        found = await asyncio.create_task(quick())
        await asyncio.gather(*tasks)
        assert worked == 300
        return found

    assert asyncio.run(run(None)) == 300
    assert asyncio.run(run(Turnstile())) <= 3


def test_a_cancelled_call_holds_up_nobody():
    async def run():
        turnstile = Turnstile()
        await turnstile.pass_through(object())
        tasks = [asyncio.create_task(turnstile.pass_through(object())) for _ in range(10)]
        await asyncio.sleep(0)
        for task in tasks[4::2]:  # which still wait
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [task.cancelled() for task in tasks] == [False] * 4 + [True, False] * 3
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.wait_for(turnstile.pass_through(object()), 10)  # and it is free again

    asyncio.run(run())

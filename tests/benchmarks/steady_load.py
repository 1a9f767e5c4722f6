"""Callers that ask a server without pause while something is done to it, and what they got."""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import grpc
from known_answers import LOST, RIGHT, WRONG, Question, put

_LATELY = 100  # answers
_PAUSE_S = 0.3  # of a caller after a failure, as clients that try again have it


class SteadyLoad:
    """Callers with a connection each, for an `async with` block; all are heard out at its end.

    Attributes:
        ends: How often a call ended how, by its status code's name where it failed.
        answers: Right answers by version, to questions that more than one version knows.
        lately: Versions of the last of them.
        slowest_s: Of all calls, however they ended.
        callers: How many.
    """

    def __init__(
        self,
        asked: Sequence[Question],
        connect: Callable[[], grpc.aio.Channel],
        *,
        callers: int = 16,
        seed: int = 0,
    ) -> None:
        self.ends: Counter[str] = Counter()
        self.answers: Counter[int] = Counter()
        self.lately: deque[int] = deque(maxlen=_LATELY)
        self.slowest_s = 0.0
        self._asked = asked
        self._connect = connect
        self.callers = callers
        self._seed = seed
        self._is_over = False

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._call(number)) for number in range(self.callers)]
        await self.wait_for_more(self.callers)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def wait_for_more(self, answers: int) -> None:
        """Wait until so many more right answers have come."""
        enough = self.ends[RIGHT] + answers
        await self._wait(lambda: self.ends[RIGHT] >= enough)

    async def wait_for_version(self, version: int) -> None:
        """Wait until all of the last answers are of one version."""
        self.lately.clear()
        await self._wait(lambda: [*self.lately].count(version) == _LATELY)

    @property
    def bad(self) -> int:
        """Answers that were wrong or never came."""
        return self.ends[WRONG] + self.ends[LOST]

    async def _wait(self, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + 300.0
        while not is_so():
            if time.monotonic() > end:
                raise RuntimeError(f"the callers wait for ever; so far: {self.ends}")
            await asyncio.sleep(0.05)

    async def _call(self, number: int) -> None:
        rng = random.Random(f"{self._seed} {number}")
        async with self._connect() as channel:
            while not self._is_over:
                question, start = rng.choice(self._asked), time.monotonic()
                how, version = await put(question, channel)
                self.slowest_s = max(self.slowest_s, time.monotonic() - start)
                how = RIGHT if how in question.ends else how
                self.ends[how] += 1
                if how == RIGHT:
                    if len(question.known) > 1:
                        self.answers[version] += 1
                        self.lately.append(version)
                else:
                    await asyncio.sleep(_PAUSE_S)

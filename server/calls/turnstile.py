"""Lets calls work on the event loop one by one: what is quick shall not wait for all of them."""

import asyncio
from collections import deque


class Turnstile:
    """A gate before the work that many calls have for the event loop.

    An iteration of the loop runs all that is ready by its start. Were every call to work whenever
    it can, what needs several iterations, such as an answer about health, would wait several times
    for all calls. Through the gate goes one every other iteration, first come, first served; where
    nobody else comes, nobody waits.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_taken = False
        self._inside: object = None  # who has passed in this iteration

    async def pass_through(self, caller: object) -> None:
        """Wait for one's turn; on the event loop alone.

        Args:
            caller: Whose turn it is. Who comes again before he has waited for anything goes on, if
                nobody else waits for a turn.
        """
        if caller is self._inside and not self._waiting:
            return
        loop = asyncio.get_running_loop()
        if self._is_taken:
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.append(turn)
            await turn
        else:
            self._is_taken = True
            loop.call_soon(self._leave)
        self._inside = caller

    def _leave(self) -> None:
        """Let an iteration go by in which nobody works, if somebody waits."""
        self._inside = None
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._let_next)
        else:
            self._is_taken = False

    def _let_next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # or its call has been cancelled
                turn.set_result(None)  # its call goes on in the next iteration
                asyncio.get_running_loop().call_soon(self._leave)  # in the same one, after it
                return
        self._is_taken = False

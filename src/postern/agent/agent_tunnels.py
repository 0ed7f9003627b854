"""The tunnels of an agent: one to every live relay worker.

The workers share one address, so that nothing in between needs to distinguish them: a tunnel reaches any of them, and
the worker sends its identity. The agent continues to dial until it has one tunnel to each, and closes duplicates. A
lost tunnel is dialled again, after a pause that doubles while dialling fails, with jitter, so that a thousand agents do
not reconnect in step.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from typing import cast

from postern.agent.serve import Orders
from postern.domain.secret import Secret
from postern.errors import PosternError
from postern.transport import websocket
from postern.transport.mux import Mux
from postern.transport.stream_windows import TUNNEL, Reserve

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0  # seconds
AGAIN_PAUSE = 1.0  # maximum seconds after a dial that reached a worker with a tunnel; the next one may reach another
LAST = 3.0  # seconds that commands have to end when their tunnels are closed


class AgentTunnels:
    """The tunnels. `hello` identifies this instance of the agent. `authority` is the DER form of the CA to trust, or
    None for the system's CAs."""

    def __init__(self, secret: Secret, authority: bytes | None, hello: dict[str, str], orders: Orders) -> None:
        self._secret = secret
        self._authority = authority
        self._hello = hello
        self._orders = orders
        self._url = ""
        self._wanted: frozenset[str] = frozenset()
        self._held: dict[str, Mux] = {}
        self._reserve = Reserve(TUNNEL)  # of all of them: an agent may run in an application's container
        self._changed = asyncio.Event()
        self._dialling: asyncio.Task[None] | None = None

    @property
    def held(self) -> frozenset[str]:
        """Return the workers with a tunnel."""
        return frozenset(self._held)

    def want(self, url: str, workers: frozenset[str]) -> None:
        """Set the address and the live workers. Dialling continues in the background until `close`."""
        self._url, self._wanted = url, workers
        self._changed.set()
        if self._dialling is None:
            self._dialling = asyncio.get_running_loop().create_task(self._dial_on())

    async def close(self, reason: str, *, grace: float = 0.0) -> None:
        """Refuse new streams and let running ones end by themselves for `grace` seconds; then end them."""
        if self._dialling is not None:
            self._dialling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._dialling
        for mux in self._held.values():
            mux.drain()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._orders.idle.wait(), grace)
        for mux in list(self._held.values()):
            mux.close(reason)
        with contextlib.suppress(TimeoutError):  # their work ends, too: commands take a moment
            await asyncio.wait_for(self._orders.idle.wait(), LAST)

    async def _dial_on(self) -> None:
        pause = FIRST_PAUSE
        while True:
            self._changed.clear()
            if self._wanted <= self.held:
                await self._changed.wait()
                pause = FIRST_PAUSE
                continue
            try:
                new, longest = await self._dial(), AGAIN_PAUSE
            except PosternError as error:
                log.warning("%s", error.message)
                new, longest = False, LONGEST_PAUSE
            pause = FIRST_PAUSE if new else min(pause * 2, longest)
            if not new:
                with contextlib.suppress(TimeoutError):  # a change of workers cuts the pause short
                    await asyncio.wait_for(self._changed.wait(), pause * random.uniform(0.5, 1.0))  # noqa: S311

    async def _dial(self) -> bool:
        """Dial. Return True if it reached a worker without a tunnel. Raises Unavailable."""
        _, protocol = await websocket.connect(
            self._url,
            token=self._secret.reveal(),
            ca=self._authority,
            protocol=lambda: Mux(dialler=True, hello=None, on_open=self._orders.take, reserve=self._reserve),
        )
        mux = cast("Mux", protocol)
        worker = str((await mux.greeting).get("worker", ""))
        if worker in self._held:
            mux.close("this worker has a tunnel already")
            return False
        mux.introduce(self._hello)  # from here on it replaces any earlier tunnel at the worker
        self._held[worker] = mux
        mux.lost.add_done_callback(lambda _lost: self._forget(worker, mux))
        log.info("a tunnel to %s is open", self._url)
        return True

    def _forget(self, worker: str, mux: Mux) -> None:
        if self._held.get(worker) is mux:
            del self._held[worker]
            self._changed.set()
            log.info("a tunnel to %s was lost: %s", self._url, mux.lost.result())

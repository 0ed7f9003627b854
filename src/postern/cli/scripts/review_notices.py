"""Notices of reviews for clients that cannot show them."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import click

from postern.cli.api import client
from postern.cli.scripts.review_wait import access_lines, print_lines
from postern.client.client_shapes import ReviewShape
from postern.errors import PosternError

_LOOKS = 5  # seconds after a client has connected


class ReviewNotices:
    """Reporter of reviews for a carried client, which cannot show them itself: prints each on standard error, once.

    The gateway creates the review when the client has logged in, so its list is polled for a few seconds then.
    """

    def __init__(self, connection: str) -> None:
        self._connection = connection
        self._known: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def look_soon(self) -> None:
        """Look for a pending review, because a client has just connected."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _look(self) -> None:
        for _ in range(_LOOKS):
            await asyncio.sleep(1)
            with suppress(PosternError, click.ClickException):  # the client itself gets the error
                for review in await asyncio.to_thread(self._waiting):
                    if review["id"] not in self._known:
                        self._known.add(review["id"])
                        print_lines(*access_lines(review))

    def _waiting(self) -> list[ReviewShape]:
        with client() as api:
            return api.reviews.all(owner="self", status="PENDING", type="jit", connection=self._connection)

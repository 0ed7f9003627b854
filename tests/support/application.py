"""The API's application, built once: its routes take longer to build than most tests to run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from fastapi import FastAPI

from postern.api.application import make_application, serve
from postern.api.info import StaticServerInfo
from postern.services.bundle import Services

routed_once = cache(make_application)


_spare: list[FastAPI] = []


@contextmanager
def lent(services: Services, info: StaticServerInfo, **more: Any) -> Iterator[FastAPI]:
    """One that nobody else has meanwhile."""
    app = _spare.pop() if _spare else make_application()
    serve(app, services, info, **more)
    yield app
    _spare.append(app)


def application(services: Services, info: StaticServerInfo, **more: Any) -> FastAPI:
    """For one test at a time; the next one's services take the place of these."""
    app = routed_once()
    serve(app, services, info, **more)
    return app

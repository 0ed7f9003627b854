"""The application's services, for routes and their dependencies.

Every dependency of a route is a coroutine function, even if it waits for nothing: FastAPI runs any other in a thread,
which costs more than most of the work there.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from postern.services.bundle import Services


def services_of(request: HTTPConnection) -> Services:
    services: Services = request.app.state.services
    return services


async def _services(request: Request) -> Services:
    return services_of(request)


Use = Annotated[Services, Depends(_services)]

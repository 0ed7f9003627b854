"""The services that the application was made with, for routes and for what routes depend on.

Everything that a route depends on is a coroutine function, also where it waits for nothing: FastAPI hands any other
over to a thread, which costs more than most of what is done there.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from postern.services.bundle import Services


def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def _services(request: Request) -> Services:
    return services_of(request)


Use = Annotated[Services, Depends(_services)]

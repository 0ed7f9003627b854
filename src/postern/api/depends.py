"""The services that the application was made with, for routes and for what routes depend on."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from postern.services.bundle import Services


def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


Use = Annotated[Services, Depends(services_of)]

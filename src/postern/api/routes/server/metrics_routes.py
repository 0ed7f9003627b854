"""Metrics, for Prometheus."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from postern.api.authentication_of_requests import SECURITY, Use, principal_of, services_of
from postern.api.responses import errors
from postern.api.route import Route
from postern.domain.identity.principal import Principal

router = APIRouter(prefix="/metrics", tags=["Server Management"], route_class=Route)

_MEDIA = "text/plain; version=0.0.4; charset=utf-8"
_TEXT = {"description": "Prometheus text format", "content": {_MEDIA: {}}}


async def _reader(request: Request) -> Principal | None:
    """Return the caller; None for the metrics token, which belongs to no user."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and services_of(request).metrics.is_token(token.strip()):
        return None
    return await principal_of(request)


# Described like every other route with authentication.
@router.get("", response_class=Response, responses={**errors(403), 200: _TEXT}, openapi_extra={"security": SECURITY})
async def metrics(reader: Annotated[Principal | None, Depends(_reader)], services: Use) -> Response:
    """Return the metrics of all processes of this machine; for administrators and auditors of the default organisation,
    and with the metrics token."""
    text = await (services.metrics.read_authorised() if reader is None else services.metrics.text(reader))
    return Response(text, media_type=_MEDIA)

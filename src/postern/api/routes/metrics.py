"""Metrics, for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Response

from postern.api.auth import Caller, Use
from postern.api.responses import errors
from postern.api.route import Route

router = APIRouter(prefix="/metrics", tags=["Server Management"], route_class=Route)

_MEDIA = "text/plain; version=0.0.4; charset=utf-8"
_TEXT = {"description": "Prometheus's text format", "content": {_MEDIA: {}}}


@router.get("", response_class=Response, responses={**errors(403), 200: _TEXT})
async def metrics(caller: Caller, services: Use) -> Response:
    """Of all processes of this machine; for administrators and auditors of the default organisation, best by an API
    key."""
    return Response(await services.metrics.text(caller), media_type=_MEDIA)

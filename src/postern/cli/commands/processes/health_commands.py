"""`postern health`."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from urllib.parse import urlsplit

import click

from postern import settings
from postern.cli.options import config_option
from postern.cli.printing import emit, json_option
from postern.errors import Unavailable
from postern.settings import Settings
from postern.wiring import paths

PATIENCE = 4.0  # seconds: the health check of the container image has five


@click.command()
@config_option
@json_option
def health(config: str | None, as_json: bool) -> None:
    """Ask the gateway on this machine whether it is ready, for the health checks of containers and scripts.

    It finds the gateway by its data folder, so run it as the gateway's user. The exit code is 6 if the gateway is not
    ready or does not answer; `postern doctor --gateway` looks for the reason.
    """
    problem = problem_of(settings.load(os.environ, config=config))
    if problem:
        raise Unavailable(f"the gateway is not ready: {problem}")
    emit({"ready": True}, as_json, lambda _: click.echo("The gateway is ready."))


def problem_of(settings: Settings) -> str:
    """Return why the gateway is not ready; empty if it is."""
    try:
        place = urlsplit(paths.api_url(settings).read_text())
    except OSError as error:
        return f"{settings.home} is not the data folder of a gateway that was started ({error.strerror})"
    host = settings.local_host
    connection = _connection(host, place.port, is_plain=place.scheme == "http")
    try:
        connection.request("GET", "/api/readyz")
        answer = json.loads(connection.getresponse().read())
        return "" if answer.get("readiness") == "OK" else str(answer["message"])
    except (OSError, http.client.HTTPException) as error:
        return f"nothing answers at {host}:{place.port} ({error})"
    except (ValueError, LookupError, AttributeError):  # a page of something else, whatever its status
        return f"what answers at {host}:{place.port} is not a gateway"
    finally:
        connection.close()


def _connection(host: str, port: int | None, *, is_plain: bool) -> http.client.HTTPConnection:
    if is_plain:
        return http.client.HTTPConnection(host, port, timeout=PATIENCE)
    # The certificate has the public name, and nothing secret is sent.
    context = ssl._create_unverified_context()  # noqa: S323
    return http.client.HTTPSConnection(host, port, timeout=PATIENCE, context=context)

from __future__ import annotations

import logging
import os

import click

from postern.cli import profile
from postern.cli.options import load
from postern.cli.profile import Profile
from postern.errors import Misconfigured
from postern.process import die_with_parent
from postern.wiring import prepare as wiring

log = logging.getLogger(__name__)


@click.command(hidden=True)
def prepare() -> None:
    """Makes what a start needs, as the supervisor runs it, and logs the command line of this user in."""
    die_with_parent()
    _log_in(wiring.run(load("prepare")))


def _log_in(prepared: wiring.Prepared) -> None:
    """Never over a login to another gateway."""
    if prepared.token is None:
        return
    try:
        known = profile.find({**os.environ, "POSTERN_API_URL": "", "POSTERN_TOKEN": ""})
        if known is not None and known.api_url not in prepared.own_urls:
            log.info("the command line stays logged in to %s", known.api_url)
            return
        profile.save(os.environ, Profile(prepared.api_url, prepared.token, prepared.email, prepared.authority))
    except (OSError, Misconfigured) as error:
        log.warning("the command line could not be logged in (%s); use `postern login`", error)

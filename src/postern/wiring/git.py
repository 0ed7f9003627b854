"""Repositories of runbooks: what the settings say of where they may be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from postern.errors import Misconfigured
from postern.integrations.git.fetcher import GitFetcher
from postern.integrations.git.messages import RepositoryLimits, RepositoryPolicy
from postern.integrations.identity.identity_addresses import networks_of
from postern.settings import Settings

_SCHEMES = ("https", "ssh", "http", "file")


def git_fetcher(settings: Settings, environment: Mapping[str, str]) -> GitFetcher:
    """Raises Misconfigured."""
    schemes = _listed(settings.runbook_schemes)
    if unknown := [one for one in schemes if one not in _SCHEMES]:
        raise Misconfigured(
            f"POSTERN_RUNBOOK_SCHEMES: {unknown[0]!r} is not one of {', '.join(_SCHEMES)}", field="runbook_schemes"
        )
    folders = _listed(settings.runbook_folders)
    if relative := [one for one in folders if not Path(one).is_absolute()]:
        raise Misconfigured(f"POSTERN_RUNBOOK_FOLDERS: {relative[0]!r} is no whole path", field="runbook_folders")
    if settings.runbook_ca and not Path(settings.runbook_ca).is_file():
        raise Misconfigured(f"POSTERN_RUNBOOK_CA: there is no file {settings.runbook_ca}", field="runbook_ca")
    if settings.runbook_timeout <= 0 or settings.runbook_size <= 0:
        raise Misconfigured("POSTERN_RUNBOOK_TIMEOUT and POSTERN_RUNBOOK_SIZE must be more than 0")
    networks = networks_of(settings.runbook_networks, "POSTERN_RUNBOOK_NETWORKS")
    limits = RepositoryLimits(received=settings.runbook_size)
    policy = RepositoryPolicy(schemes, tuple(str(one) for one in networks), folders, settings.runbook_ca, limits)
    return GitFetcher(policy, environment, seconds=settings.runbook_timeout)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())

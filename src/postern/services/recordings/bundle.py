"""The services that are about recordings, built together."""

from __future__ import annotations

from dataclasses import dataclass

from postern.services.identity.bundle import IdentityServices
from postern.services.recordings.links import DownloadLinks
from postern.services.recordings.places import Places
from postern.services.server.bundle import ServerServices
from postern.services.sessions import Sessions
from postern.store.ports import Clock, Stores

WATCHES_EACH, WATCHES = 4, 64  # streams of running sessions at once


@dataclass(frozen=True)
class RecordingServices:
    download_links: DownloadLinks
    watchers: Places


def build_recordings(
    stores: Stores, now: Clock, server: ServerServices, identity: IdentityServices, sessions: Sessions
) -> RecordingServices:
    return RecordingServices(
        download_links=DownloadLinks(
            sessions,
            stores.principals,
            identity.tokens,
            identity.logins,
            identity.api_keys,
            server.features,
            now,
        ),
        watchers=Places("watch sessions", each=WATCHES_EACH, most=WATCHES),
    )

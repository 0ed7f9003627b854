"""Services over the store, for every process except the supervisor."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from postern.domain.addresses import AllowedNetworks
from postern.domain.identity.auth_config import AuthConfig
from postern.domain.identity.login import LoginMethod
from postern.domain.server import Endpoint, Listener, ServerConfig
from postern.domain.targets.connection import CONCURRENT, OPAQUE, TEXTUAL
from postern.errors import Misconfigured
from postern.gateway.clients.ports import probe
from postern.inspection.patterns import compiles
from postern.integrations.anchors.anchor_webhook import WebhookAnchor
from postern.integrations.anchors.file import FileAnchor
from postern.integrations.chat.slack import Slack
from postern.integrations.chat.slack_window import SlackWindow
from postern.integrations.git.fetcher import GitFetcher
from postern.integrations.git.messages import RepositoryLimits, RepositoryPolicy
from postern.integrations.identity.fetch import ProviderFetcher
from postern.integrations.identity.identity_addresses import networks_of
from postern.integrations.identity.ldap_client import LdapClient
from postern.integrations.identity.oidc import OpenIdClient
from postern.integrations.identity.saml_adapter import METADATA_DEADLINE, METADATA_LIMIT, SamlAdapter
from postern.integrations.sinks.receivers import Receivers
from postern.integrations.trackers.trackers import tracker_of
from postern.protocols.registry import PROTOCOLS
from postern.recording.recording_copies import StoredCopies
from postern.recording.recording_library import RecordingLibrary
from postern.recording.stored import StoredSegments
from postern.services.bundle import Services, build_services
from postern.services.issues.tracker import Trackers
from postern.services.server.machine_facts import MachineFacts
from postern.services.targets.targets import Abilities
from postern.settings import Settings
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.journal import FileJournal
from postern.store.ports.common_ports import Signals, Topic
from postern.store.ports.ledger_ports import Anchor
from postern.store.sql.sessions.sql_backlog import SqlBacklog
from postern.store.stores import Stores
from postern.wiring import masters_wiring, paths, tls
from postern.wiring.auth_settings_wiring import default_auth
from postern.wiring.blobs import open_segments
from postern.wiring.language_wiring import language_types
from postern.wiring.masking_wiring import detected_types, masks
from postern.wiring.metrics_wiring import gather_metrics
from postern.wiring.parsers import PARSED, ParserJudge
from postern.wiring.recordings_wiring import trouble_with_recordings


def anchors(settings: Settings) -> tuple[Anchor, ...]:
    """Raises Misconfigured."""
    found_anchors: list[Anchor] = []
    if settings.anchor_file:
        path = Path(settings.anchor_file).expanduser()
        if not path.parent.is_dir():
            raise Misconfigured(
                f"POSTERN_ANCHOR_FILE: the folder {path.parent} does not exist; create it, or choose a different file",
                field="anchor_file",
            )
        found_anchors.append(FileAnchor(path))
    if settings.anchor_webhook:
        found_anchors.append(WebhookAnchor(settings.anchor_webhook, settings.anchor_webhook_secret, _now))
    if settings.anchor_bucket:
        found_anchors.append(_bucket(settings))
    return tuple(found_anchors)


def _bucket(settings: Settings) -> Anchor:
    try:
        from postern.integrations.anchors.bucket import BucketAnchor
    except ImportError:
        raise Misconfigured("POSTERN_ANCHOR_BUCKET needs boto3; run: pip install boto3") from None
    return BucketAnchor(settings.anchor_bucket, timedelta(days=settings.anchor_retention), _now)


def _now() -> datetime:
    return datetime.now(UTC)


_SCHEMES = ("https", "ssh", "http", "file")


def git_fetcher(settings: Settings, environment: Mapping[str, str]) -> GitFetcher:
    """Raises Misconfigured."""
    schemes = _split_list(settings.runbook_schemes)
    if unknown := [scheme for scheme in schemes if scheme not in _SCHEMES]:
        raise Misconfigured(
            f"POSTERN_RUNBOOK_SCHEMES: {unknown[0]!r} is not one of {', '.join(_SCHEMES)}", field="runbook_schemes"
        )
    folders = _split_list(settings.runbook_folders)
    if relative := [folder for folder in folders if not Path(folder).is_absolute()]:
        raise Misconfigured(
            f"POSTERN_RUNBOOK_FOLDERS: {relative[0]!r} is not an absolute path", field="runbook_folders"
        )
    if settings.runbook_ca and not os.path.isfile(settings.runbook_ca):
        raise Misconfigured(f"POSTERN_RUNBOOK_CA: the file {settings.runbook_ca} does not exist", field="runbook_ca")
    if settings.runbook_timeout <= 0 or settings.runbook_size <= 0:
        raise Misconfigured("POSTERN_RUNBOOK_TIMEOUT and POSTERN_RUNBOOK_SIZE must be more than 0")
    networks = networks_of(settings.runbook_networks, "POSTERN_RUNBOOK_NETWORKS")
    limits = RepositoryLimits(received=settings.runbook_size)
    policy = RepositoryPolicy(
        schemes, tuple(str(network) for network in networks), folders, settings.runbook_ca, limits
    )
    return GitFetcher(policy, environment, seconds=settings.runbook_timeout)


def _split_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


class Providers:
    def __init__(self, openid: OpenIdClient, saml: SamlAdapter, ldap: LdapClient) -> None:
        self._openid = openid
        self._saml = saml
        self._ldap = ldap

    async def check(self, config: AuthConfig) -> str:
        """Check an identity provider; return the issuer of its users. Raises Invalid, Unavailable."""
        if config.method is LoginMethod.SAML and config.saml is not None:
            return await self._saml.entity_id(config.saml)
        if config.method is LoginMethod.LDAP:
            return await self._ldap.check(config)
        return await self._openid.check(config)


ENFORCEABLE = frozenset(PROTOCOLS)  # rules apply wherever a protocol is spoken


@dataclass(frozen=True, slots=True)
class App:
    database: Database
    stores: Stores
    encryption: Encryption
    services: Services
    stored: StoredSegments


@asynccontextmanager
async def open_app(settings: Settings, signals: Signals, *, migrate: bool = False) -> AsyncIterator[App]:
    """Build the services. Raises Misconfigured if the master key is unusable or the wrong one, Unavailable if the store
    does not answer."""
    database = Database(settings.url)
    machine = machine_of(settings)
    receivers = Receivers(machine.sink_networks.networks)
    try:
        if migrate:
            await database.migrate()
        encryption = masters_wiring.open_encryption(settings, database)
        await encryption.load()
        for topic in (Topic.DATA_KEYS_CHANGED, Topic.RESUMED):
            signals.subscribe(topic, lambda _payload: encryption.refresh())
        stores = Stores(database, encryption)
        segments = open_segments(settings, stores.segments, encryption)
        recordings = RecordingLibrary(
            settings.home,
            {name: spec.renderer for name, spec in PROTOCOLS.items()},
            {name: spec.results for name, spec in PROTOCOLS.items() if spec.results is not None},
            framed=TEXTUAL | OPAQUE | CONCURRENT,
            stored=segments,
            answers={name: spec.answers for name, spec in PROTOCOLS.items() if spec.answers is not None},
            numbers={name: spec.exchange_of for name, spec in PROTOCOLS.items() if spec.exchange_of is not None},
            archives={name: spec.archive for name, spec in PROTOCOLS.items() if spec.archive is not None},
        )
        networks = machine.provider_networks.networks
        openid = OpenIdClient(ProviderFetcher(allowed=networks), now)
        saml = SamlAdapter(ProviderFetcher(allowed=networks, deadline=METADATA_DEADLINE, limit=METADATA_LIMIT), now)
        ldap = LdapClient(allowed=networks)
        models = language_types(settings)
        able = Abilities(
            compiles=compiles,
            masks=masks,
            enforceable=ENFORCEABLE,
            parsed=PARSED,
            judge=ParserJudge(),
            models=models,
            types=detected_types(models),
        )
        services = build_services(
            stores,
            signals,
            recordings,
            now,
            able,
            git_fetcher(settings, os.environ),
            machine=replace(
                machine,
                provider=Providers(openid, saml, ldap),
                copies=StoredCopies(segments.blobs, segments.keys),
                metrics=functools.partial(gather_metrics, settings.home, SqlBacklog(database).look),
            ),
            openid=openid,
            saml=saml,
            ldap=ldap,
            chats=SlackWindow(Slack(receivers)),
            trackers=trackers(settings),
        )
        yield App(database, stores, encryption, services, segments)
    finally:
        await receivers.close()
        await database.close()


def trackers(settings: Settings) -> Trackers:
    """Raises Misconfigured."""
    allowed = networks_of(settings.tracker_networks, "POSTERN_TRACKER_NETWORKS")
    return functools.partial(tracker_of, allowed=allowed)


def _parse_networks(setting: str, text: str) -> AllowedNetworks:
    return AllowedNetworks(setting, networks_of(text, setting))


def machine_of(settings: Settings) -> MachineFacts:
    """Raises Misconfigured."""
    reserved = {settings.api_port: "the API", settings.tunnel_port: "tunnels", settings.control_port: "agents"}
    if settings.demo:
        reserved[settings.demo_port] = "the demo database"
    return MachineFacts(
        config=ServerConfig(own_listeners(settings), settings.public_host, settings.api_url),
        auth=default_auth(settings),
        control=Endpoint(settings.address, settings.control_port),
        authority=lambda: tls.authority_der(settings),
        probe=probe,
        reserved=reserved,
        certified=lambda name: tls.is_certified(settings, name),
        recordings=lambda: trouble_with_recordings(settings),
        journal=FileJournal(paths.logs_folder(settings)),
        anchors=lambda: anchors(settings),
        metrics_token=settings.metrics_token,
        checkpoint_interval=timedelta(seconds=settings.checkpoint_interval),
        provider_networks=_parse_networks("POSTERN_PROVIDER_NETWORKS", settings.provider_networks),
        sink_networks=_parse_networks("POSTERN_SINK_NETWORKS", settings.sink_networks),
        app_domain=tls.app_domain(settings),
    )


def own_listeners(settings: Settings) -> dict[str, Listener]:
    """Return the default listeners of native clients, until an administrator changes them."""
    return {
        name: _own_listener(settings.host, getattr(settings, spec.port_setting), is_optional=spec.is_off_by_default)
        for name, spec in PROTOCOLS.items()
        if spec.port_setting
    }


def _own_listener(host: str, port: int, *, is_optional: bool) -> Listener:
    return Listener(bool(port) or not is_optional, Endpoint(host, port))


def now() -> datetime:
    return datetime.now(UTC)

"""All background jobs of this gateway, which run in the archiver's process only."""

from __future__ import annotations

import functools
import socket
from collections.abc import Awaitable, Callable
from datetime import timedelta

from postern.domain.identity.login import LoginMethod
from postern.domain.tracing import NO_TRACER, Tracer
from postern.errors import Misconfigured
from postern.integrations.identity.identity_addresses import networks_of
from postern.integrations.sinks.senders import Senders
from postern.metrics.meters import Meters
from postern.recording.purged import delete_local
from postern.services.background_jobs import BackgroundJobs, Task
from postern.services.issues.issue_delivery import IssueDelivery
from postern.services.notifications.event_delivery import EventDelivery
from postern.services.recordings import ledger_worker, purger
from postern.services.recordings.purger import Purger
from postern.services.runbooks.repository_reading import ROUND
from postern.services.server import organisation_deletion
from postern.services.server.organisation_deletion import OrganisationDeleter
from postern.settings import Settings
from postern.wiring import certificate_renewal
from postern.wiring.app import App, now, trackers
from postern.wiring.certificate_renewal import CertificateRenewal
from postern.wiring.chats_wiring import chat_senders
from postern.wiring.metrics_wiring import make_review_observer

_SELDOM = 600.0  # seconds; for deletions of obsolete data, which are not visible


def build_background_jobs(settings: Settings, app: App, meters: Meters, tracer: Tracer = NO_TRACER) -> BackgroundJobs:
    """Return the jobs. Storing segments, the archiver's own work, is not one of them. Raises Misconfigured."""
    services, purging, deleting = app.services, build_purger(settings, app), build_deleter(settings, app)
    sending = build_sending(settings, app, meters, tracer)
    delivering = build_delivering(settings, app, meters)
    services.postprocessing.observer = make_review_observer(meters)
    services.runbook_schedules.counted = functools.partial(meters.count, "postern_schedule_runs")
    if settings.runbook_interval < 1:
        raise Misconfigured("POSTERN_RUNBOOK_INTERVAL: must be 1 second or more", field="runbook_interval")
    every = timedelta(seconds=settings.runbook_interval)
    renewal = CertificateRenewal(settings, services.signals, now)

    def reading(*, failing: bool) -> Callable[[], Awaitable[bool]]:
        return functools.partial(services.runbook_reading.once, every, failing=failing)

    def record_run(name: str, seconds: float, failed: bool) -> None:
        meters.observe("postern_upkeep_seconds", seconds, name)
        if failed:
            meters.count("postern_upkeep_failed", name)

    return BackgroundJobs(
        [
            # Work after a session and an audit entry; one process at a time, over all machines.
            Task("follow-up", 1.0, services.postprocessing.once, goes_on=True, stop=services.postprocessing.stop),
            Task("deliveries", 1.0, sending.once, stop=sending.stop),
            Task("issues", 1.0, delivering.once, stop=delivering.stop, woken=delivering.woken),
            Task(
                "ledger",
                5.0,
                services.ledger_worker.once,
                longest=ledger_worker.LONGEST,
                stop=services.ledger_worker.stop,
            ),
            Task("texts", 10.0, services.session_texts.catch_up, goes_on=True),
            Task("reviews", 5.0, services.reviews.settle),
            Task("schedules", 2.0, services.runbook_schedules.once, goes_on=True),
            # Repositories with runbooks; those that fail wait for each other and delay no other.
            Task(
                "runbooks", 5.0, reading(failing=False), goes_on=True, longest=ROUND, stop=services.runbook_reading.stop
            ),
            Task("failing runbooks", 5.0, reading(failing=True), goes_on=True, longest=ROUND),
            Task("purges", 5.0, purging.once, longest=purger.LONGEST, stop=purging.stop),
            Task(
                *("organisation deletions", 5.0, deleting.once),
                goes_on=True,
                longest=organisation_deletion.LONGEST,
                stop=deleting.stop,
            ),
            # Logins of LDAP directories, whose users may be gone or disabled.
            Task("directory logins", 30.0, functools.partial(services.logins.check_due, LoginMethod.LDAP)),
            Task(
                *("certificates", certificate_renewal.EVERY, renewal.once),
                longest=certificate_renewal.LONGEST,
                woken=renewal.woken,
            ),
            # Deletion of obsolete data.
            Task("logins", _SELDOM, services.logins.prune),
            Task("one_time_tokens", _SELDOM, services.one_time_tokens.prune),
            Task("workers", _SELDOM, services.relay_workers.prune),
            Task("target_tasks", _SELDOM, services.target_tasks.prune),
            Task("idempotency keys", _SELDOM, services.idempotency.prune),
        ],
        record_run,
    )


def build_sending(settings: Settings, app: App, meters: Meters, tracer: Tracer) -> EventDelivery:
    """Raises Misconfigured."""
    networks = networks_of(settings.sink_networks, "POSTERN_SINK_NETWORKS")
    host = socket.gethostname()
    chats = functools.partial(chat_senders, app.stores, app.services, host, now)
    senders = Senders(host, networks, tracer=tracer, count=meters.count, chats=chats)
    return EventDelivery(app.stores.deliveries, app.stores.leases, senders, now)


def build_delivering(settings: Settings, app: App, meters: Meters) -> IssueDelivery:
    """Raises Misconfigured."""
    return IssueDelivery(
        store=app.stores.session_issues,
        leases=app.stores.leases,
        settings=app.services.tracker.of,
        trackers=trackers(settings),
        signals=app.services.signals,
        now=now,
        count=functools.partial(meters.count, "postern_tracker_issues"),
    )


def build_purger(settings: Settings, app: App) -> Purger:
    """Raises Misconfigured."""
    stores = app.stores
    return Purger(
        leases=stores.leases,
        retentions=stores.retentions,
        store=stores.purges,
        register=app.services.purge_register,
        blobs=app.stored.blobs,
        clean=functools.partial(delete_local, settings.home),
        now=now,
    )


def build_deleter(settings: Settings, app: App) -> OrganisationDeleter:
    """Raises Misconfigured."""
    return OrganisationDeleter(
        leases=app.stores.leases,
        store=app.stores.organisation_deletions,
        blobs=app.stored.blobs,
        clean=functools.partial(delete_local, settings.home),
        audit=app.services.audit,
        operators=app.services.operators,
        signals=app.services.signals,
        now=now,
    )

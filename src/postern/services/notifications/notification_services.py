"""The services of events and reports, built together."""

from __future__ import annotations

from dataclasses import dataclass

from postern.domain.addresses import AllowedNetworks
from postern.services.notifications.change_feed import ChangeFeed, ChangeStores
from postern.services.notifications.reports import Reports
from postern.services.notifications.session_postprocessing import SessionPostprocessor
from postern.services.notifications.sinks import Sinks
from postern.services.rules.access_control import AccessControl
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.notification_ports import ViolationStore
from postern.store.stores import Stores


@dataclass(frozen=True)
class NotificationServices:
    changes: ChangeFeed
    postprocessing: SessionPostprocessor
    reports: Reports
    sinks: Sinks
    violations: ViolationStore


def build_notifications(
    stores: Stores, control: AccessControl, signals: Signals, now: Clock, networks: AllowedNetworks
) -> NotificationServices:
    """Build the services of events and reports. `networks`: the private ones in which sinks may be."""
    looked_up = ChangeStores(stores.sessions, stores.reviews, stores.agents, stores.connections)
    return NotificationServices(
        changes=ChangeFeed(looked_up, control, signals),
        postprocessing=SessionPostprocessor(
            stores.postprocessing, stores.reviews, stores.sinks, stores.leases, signals, now
        ),
        reports=Reports(stores.reports, stores.review_reports, now),
        sinks=Sinks(stores.sinks, stores.deliveries, signals, now, networks),
        violations=stores.violations,
    )

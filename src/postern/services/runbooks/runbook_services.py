"""The services of runbooks, built together."""

from __future__ import annotations

from dataclasses import dataclass

from postern.services.runbooks.fetching import RepositoryFetcher
from postern.services.runbooks.hooks import RunbookHooks
from postern.services.runbooks.library import RunbookLibrary
from postern.services.runbooks.repositories import Repositories
from postern.services.runbooks.repository_reading import RepositoryReading
from postern.services.runbooks.runbook_listing import Listing
from postern.services.runbooks.runs import Runs
from postern.services.runbooks.schedules import Schedules
from postern.services.targets.targets import TargetServices
from postern.store.ports.common_ports import Clock, Signals
from postern.store.stores import Stores


@dataclass(frozen=True)
class RunbookServices:
    hooks: RunbookHooks
    runbook_library: RunbookLibrary
    runbook_listing: Listing
    runbook_reading: RepositoryReading
    runbook_repositories: Repositories
    runbook_runs: Runs
    runbook_schedules: Schedules


def build_runbooks(
    stores: Stores, targets: TargetServices, fetcher: RepositoryFetcher, signals: Signals, now: Clock
) -> RunbookServices:
    """Build the services of runbooks. `fetcher` reads and writes repositories."""
    reading = RepositoryReading(
        stores.runbook_repositories, stores.runbook_snapshots, stores.leases, fetcher, signals, now
    )
    library = RunbookLibrary(stores.runbook_snapshots, reading, now)
    runs = Runs(library, targets.access, targets.sessions)
    return RunbookServices(
        hooks=RunbookHooks(stores.runbook_snapshots, stores.hook_runs, targets.sessions, signals, now),
        runbook_library=library,
        runbook_listing=Listing(library, stores.connections, targets.control, targets.runbook_rights),
        runbook_reading=reading,
        runbook_repositories=Repositories(stores.runbook_repositories, library, fetcher, signals, now),
        runbook_runs=runs,
        runbook_schedules=Schedules(
            stores.runbook_schedules,
            signals,
            now,
            principals=stores.principals,
            sessions=stores.sessions,
            control=targets.control,
            runs=runs,
        ),
    )

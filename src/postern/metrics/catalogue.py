"""Every metric there is. What is not here cannot be counted, and no label can be a name that people choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds


@dataclass(frozen=True, slots=True)
class Metric:
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


METRICS: dict[str, Metric] = {
    "postern_sessions_opened": Metric("counter", "Sessions that began.", ("verb",)),
    "postern_sessions_ended": Metric("counter", "Sessions that ended, by why.", ("reason",)),
    "postern_sessions_open": Metric("gauge", "Sessions that run now."),
    "postern_operations": Metric("counter", "Statements and commands of sessions that have ended."),
    "postern_operations_refused": Metric("counter", "Of these, refused by a guard rail."),
    "postern_values_masked": Metric("counter", "Values masked in sessions that have ended.", ("info_type",)),
    "postern_recorded_bytes": Metric("counter", "Bytes of recordings of sessions that have ended."),
    "postern_relayed_bytes": Metric("counter", "Bytes read from clients and from targets.", ("from",)),
    "postern_recordings_failed": Metric("counter", "Recordings that could not be written or finished."),
    "postern_logins_begun": Metric("counter", "Native clients and tunnels that began a login."),
    "postern_logins_succeeded": Metric("counter", "Native clients and tunnels that were let in."),
    "postern_agents_connected": Metric("gauge", "Agents that hold a tunnel to this worker."),
    "postern_tunnel_streams": Metric("gauge", "Streams of the tunnels of agents."),
    "postern_api_requests": Metric("counter", "Requests to the API.", ("method", "route", "status")),
    "postern_api_request_seconds": Metric("histogram", "How long they took.", ("method",)),
    "postern_store_seconds": Metric("histogram", "How long the store took for a statement or transaction."),
    "postern_event_loop_lag_seconds": Metric("histogram", "How late a process comes to what is due."),
    "postern_process_up": Metric("gauge", "Whether a process of this machine answers."),
    "postern_spool_bytes": Metric("gauge", "Recordings being written, of this machine."),
    "postern_sealed_bytes": Metric("gauge", "Sealed recordings that wait on this machine to be stored."),
    "postern_sealed_segments": Metric("gauge", "The same, as a number of segments."),
    "postern_home_free_bytes": Metric("gauge", "Free room on the disk of the data folder."),
    "postern_home_bytes": Metric("gauge", "Size of the disk of the data folder."),
}

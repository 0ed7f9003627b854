"""Every metric there is. What is not here cannot be counted, and no label can be a name that people choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LONG = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0)  # of what people do
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds


@dataclass(frozen=True, slots=True)
class Metric:
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = BUCKETS  # of a histogram


METRICS: dict[str, Metric] = {
    "postern_sessions_opened": Metric("counter", "Sessions that began.", ("verb",)),
    "postern_sessions_ended": Metric("counter", "Sessions that ended, by why.", ("reason",)),
    "postern_clients_turned_away": Metric("counter", "Clients who got no session, by why.", ("reason",)),
    "postern_target_open_seconds": Metric(
        "histogram", "How long dialling a target and logging in to it took.", ("verb",)
    ),
    "postern_sessions_open": Metric("gauge", "Sessions that run now."),
    "postern_operations": Metric("counter", "Statements and commands of sessions that have ended."),
    "postern_operations_refused": Metric("counter", "Of these, refused by a guard rail."),
    "postern_rules_violated": Metric(
        "counter", "What rules refused (deny), warned of (warn) and held (review).", ("action",)
    ),
    "postern_session_hooks": Metric(
        "counter", "Session hooks, by what came of them: succeeded, failed, not_run.", ("kind", "outcome")
    ),
    "postern_values_masked": Metric(
        "counter", "Values masked in sessions that have ended; 'other' by custom types and columns.", ("info_type",)
    ),
    "postern_answers_not_inspected": Metric(
        "counter", "Answers that could not be inspected in sessions that have ended, refused or passed on."
    ),
    "postern_recorded_bytes": Metric("counter", "Bytes of recordings of sessions that have ended."),
    "postern_relayed_bytes": Metric("counter", "Bytes read from clients and from targets.", ("from",)),
    "postern_recordings_failed": Metric("counter", "Recordings that could not be written or finished."),
    "postern_logins_begun": Metric("counter", "Native clients and tunnels that began a login."),
    "postern_logins_succeeded": Metric("counter", "Native clients and tunnels that were let in."),
    "postern_logins_rejected": Metric(
        "counter", "Native clients and tunnels that were told to come back later, before they could log in."
    ),
    "postern_logins_waiting": Metric("gauge", "Native clients and tunnels that wait for their turn to log in."),
    "postern_clients_waiting": Metric("gauge", "Clients at login that wait for colleagues to let them in."),
    "postern_agents_connected": Metric("gauge", "Agents that hold a tunnel to this worker."),
    "postern_tunnels_open": Metric("gauge", "Tunnels to this worker, of agents and of command lines."),
    "postern_tunnel_streams": Metric("gauge", "Streams of the tunnels of agents."),
    "postern_api_requests": Metric("counter", "Requests to the API.", ("method", "route", "status")),
    "postern_api_request_seconds": Metric("histogram", "How long they took.", ("method",)),
    "postern_store_seconds": Metric("histogram", "How long the store took for a statement or transaction."),
    "postern_store_connections": Metric("gauge", "Connections to the store that are in use now."),
    "postern_store_connections_max": Metric("gauge", "Connections to the store that this process has at most."),
    "postern_segments_stored": Metric("counter", "Segments that the archivist put into the blob store."),
    "postern_segments_set_aside": Metric("gauge", "Segments that cannot be stored; the log says why."),
    "postern_blob_store_up": Metric("gauge", "Whether the blob store took what the archivist had in its last round."),
    "postern_sink_deliveries": Metric("counter", "Events that were sent to sinks, or were to be.", ("kind", "outcome")),
    "postern_tracker_issues": Metric(
        "counter", "What was done in trackers for sessions: made, closed, failed, given_up.", ("outcome",)
    ),
    "postern_schedule_runs": Metric(
        "counter", "Times of schedules: a run came about (begun), or did not (failed).", ("outcome",)
    ),
    "postern_reviews_asked": Metric("counter", "Reviews that somebody asked for, once sinks were told.", ("kind",)),
    "postern_reviews_decided": Metric(
        "counter", "Reviews of which sinks were told what became of them.", ("kind", "outcome")
    ),
    "postern_review_decision_seconds": Metric(
        "histogram", "From asking to approval or rejection.", ("kind",), buckets=LONG
    ),
    "postern_reviews_forced": Metric("counter", "Approvals by the right to approve alone.", ("kind",)),
    "postern_spans_dropped": Metric("counter", "Spans of traces that the collector did not take, or that did not fit."),
    "postern_event_loop_lag_seconds": Metric("histogram", "How late a process comes to what is due."),
    "postern_process_up": Metric("gauge", "Whether a process of this machine answers."),
    "postern_upkeep_seconds": Metric("histogram", "How long a round of what is done again and again took.", ("task",)),
    "postern_upkeep_failed": Metric("counter", "Rounds that came to nothing.", ("task",)),
    "postern_archivist_silence_seconds": Metric("gauge", "Since when nothing was heard of the archivist."),
    "postern_sealed_segments": Metric("gauge", "Segments of recordings that are not stored yet; 10000 at most."),
    "postern_sealed_bytes": Metric("gauge", "Their bytes on this machine's disk."),
    "postern_sealed_oldest_seconds": Metric("gauge", "Since when the oldest of them waits."),
    "process_cpu_seconds": Metric("counter", "Processor time, of user and system."),
    "process_resident_memory_bytes": Metric("gauge", "Memory that is resident."),
    "process_open_fds": Metric("gauge", "Open files."),
    "postern_descriptor_rejections": Metric(
        "counter", "Clients rejected since a process was near its limit of open files."
    ),
    "process_max_fds": Metric("gauge", "Open files at most."),
    "process_start_time_seconds": Metric("gauge", "When it began, in seconds since 1970."),
    "postern_build_info": Metric("gauge", "1; the version is a label.", ("version",)),
    "postern_store_up": Metric("gauge", "Whether the store answered when these numbers were asked for."),
    "postern_ledger_lag_seconds": Metric("gauge", "Since when the first session not in the ledger has ended."),
    "postern_follow_up_sessions": Metric("gauge", "Sessions not yet counted and told to sinks; 10000 at most."),
    "postern_sinks_failing": Metric("gauge", "Sinks of all organisations that do not take their next event."),
    "postern_sink_lag_seconds": Metric("gauge", "Since when the sink that fails longest has done so."),
    "postern_reviews_waiting": Metric("gauge", "Reviews that nobody has decided yet; 10000 at most."),
    "postern_sink_events_waiting": Metric("gauge", "Events that wait for sinks; 10000 at most."),
    "postern_spool_bytes": Metric("gauge", "Recordings being written, of this machine."),
    "postern_home_free_bytes": Metric("gauge", "Free room on the disk of the data folder."),
    "postern_home_bytes": Metric("gauge", "Size of the disk of the data folder."),
}

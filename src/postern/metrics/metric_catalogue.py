"""Catalogue of all metrics. Only these can be counted, and no label is a name that users choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LONG = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0)  # of what users do
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds


@dataclass(frozen=True, slots=True)
class Metric:
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = BUCKETS  # of a histogram


METRICS: dict[str, Metric] = {
    "postern_sessions_opened": Metric("counter", "Sessions that were opened.", ("verb",)),
    "postern_sessions_ended": Metric("counter", "Sessions that ended, by reason.", ("reason",)),
    "postern_clients_turned_away": Metric("counter", "Clients that were denied a session, by reason.", ("reason",)),
    "postern_target_open_seconds": Metric("histogram", "Time to dial a target and log in to it.", ("verb",)),
    "postern_sessions_open": Metric("gauge", "Sessions that are open now."),
    "postern_operations": Metric("counter", "Statements and commands of ended sessions."),
    "postern_operations_refused": Metric("counter", "Statements and commands that a guardrail denied."),
    "postern_rules_violated": Metric("counter", "Rule violations, by action: deny, warn, review.", ("action",)),
    "postern_script_previews": Metric(
        "counter", "Previews of scripts, by outcome: allow, warn, hold, deny.", ("outcome",)
    ),
    "postern_session_hooks": Metric(
        "counter", "Session hooks, by outcome: succeeded, failed, not_run.", ("kind", "outcome")
    ),
    "postern_values_masked": Metric(
        "counter", "Values masked in ended sessions; 'other' for custom types and columns.", ("info_type",)
    ),
    "postern_answers_not_inspected": Metric(
        "counter", "Answers of ended sessions that could not be inspected, whether denied or passed on."
    ),
    "postern_recorded_bytes": Metric("counter", "Bytes of recordings of ended sessions."),
    "postern_relayed_bytes": Metric("counter", "Bytes read from clients and from targets.", ("from",)),
    "postern_recordings_failed": Metric("counter", "Recordings that could not be written or finished."),
    "postern_logins_begun": Metric("counter", "Logins that native clients and tunnels started."),
    "postern_logins_succeeded": Metric("counter", "Logins of native clients and tunnels that succeeded."),
    "postern_logins_rejected": Metric(
        "counter", "Native clients and tunnels that were rejected before login because of load."
    ),
    "postern_logins_waiting": Metric("gauge", "Native clients and tunnels in the login queue."),
    "postern_clients_waiting": Metric("gauge", "Clients at login that wait for an approval."),
    "postern_agents_connected": Metric("gauge", "Agents with a tunnel to this worker."),
    "postern_web_terminals_open": Metric("gauge", "Terminals in browsers, of this API process."),
    "postern_tunnels_open": Metric("gauge", "Tunnels of agents and command lines to this worker."),
    "postern_tunnel_streams": Metric("gauge", "Open streams in tunnels of agents."),
    "postern_api_requests": Metric("counter", "Requests to the API.", ("method", "route", "status")),
    "postern_api_request_seconds": Metric("histogram", "Duration of API requests.", ("method",)),
    "postern_store_seconds": Metric("histogram", "Duration of statements and transactions in the store."),
    "postern_store_connections": Metric("gauge", "Connections to the store in use now."),
    "postern_store_connections_max": Metric("gauge", "Limit of this process's connections to the store."),
    "postern_segments_stored": Metric("counter", "Segments that the archiver put into the blob store."),
    "postern_segments_set_aside": Metric("gauge", "Segments that cannot be stored; the log says why."),
    "postern_blob_store_up": Metric("gauge", "Whether the archiver's last round could use the blob store."),
    "postern_sink_deliveries": Metric("counter", "Deliveries of events to sinks, by outcome.", ("kind", "outcome")),
    "postern_tracker_issues": Metric(
        "counter", "Actions in issue trackers for sessions: made, closed, failed, given_up.", ("outcome",)
    ),
    "postern_schedule_runs": Metric(
        "counter", "Scheduled times, by outcome: the run started (begun) or did not (failed).", ("outcome",)
    ),
    "postern_reviews_asked": Metric("counter", "Reviews requested, counted once sinks are notified.", ("kind",)),
    "postern_reviews_decided": Metric(
        "counter", "Reviews decided, counted once sinks are notified.", ("kind", "outcome")
    ),
    "postern_review_decision_seconds": Metric(
        "histogram", "Time from request to approval or rejection.", ("kind",), buckets=LONG
    ),
    "postern_reviews_forced": Metric("counter", "Force approvals.", ("kind",)),
    "postern_spans_dropped": Metric("counter", "Trace spans that were dropped or that the collector rejected."),
    "postern_event_loop_lag_seconds": Metric("histogram", "Event loop lag: delay of due timers."),
    "postern_certificate_expiry_timestamp_seconds": Metric(
        "gauge", "When the certificate that the process presents expires, in seconds since 1970."
    ),
    "postern_process_up": Metric("gauge", "Whether a process of this machine answers."),
    "postern_upkeep_seconds": Metric("histogram", "Duration of background job rounds.", ("task",)),
    "postern_upkeep_failed": Metric("counter", "Background job rounds that failed.", ("task",)),
    "postern_archiver_silence_seconds": Metric("gauge", "Time since the archiver's last heartbeat."),
    "postern_sealed_segments": Metric("gauge", "Recording segments that are not stored yet; 10000 at most."),
    "postern_sealed_bytes": Metric("gauge", "Bytes of unstored segments on this machine's disk."),
    "postern_sealed_oldest_seconds": Metric("gauge", "Age of the oldest unstored segment."),
    "process_cpu_seconds": Metric("counter", "Processor time, of user and system."),
    "process_resident_memory_bytes": Metric("gauge", "Resident memory."),
    "process_open_fds": Metric("gauge", "Open file descriptors."),
    "postern_descriptor_rejections": Metric(
        "counter", "Clients rejected because a process was near its limit of open files."
    ),
    "process_max_fds": Metric("gauge", "Limit of open file descriptors."),
    "process_start_time_seconds": Metric("gauge", "Start time, in seconds since 1970."),
    "postern_build_info": Metric("gauge", "1; the version is a label.", ("version",)),
    "postern_store_up": Metric("gauge", "Whether the store answered when these metrics were collected."),
    "postern_last_backup_timestamp_seconds": Metric(
        "gauge", "Time of the last `postern backup`, in seconds since 1970; 0 if there is none."
    ),
    "postern_ledger_lag_seconds": Metric("gauge", "Time since the end of the oldest session not yet in the ledger."),
    "postern_follow_up_sessions": Metric("gauge", "Sessions not yet counted and sent to sinks; 10000 at most."),
    "postern_sinks_failing": Metric("gauge", "Failing sinks of all organisations."),
    "postern_sink_lag_seconds": Metric("gauge", "How long the longest-failing sink has been failing."),
    "postern_reviews_waiting": Metric("gauge", "Pending reviews; 10000 at most."),
    "postern_sink_events_waiting": Metric("gauge", "Events that wait for sinks; 10000 at most."),
    "postern_spool_bytes": Metric("gauge", "Bytes of recordings being written on this machine."),
    "postern_home_free_bytes": Metric("gauge", "Free bytes on the disk of the data folder."),
    "postern_home_bytes": Metric("gauge", "Size of the disk of the data folder."),
}

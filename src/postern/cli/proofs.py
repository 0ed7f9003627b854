"""Options and output that the commands which verify share: stored keys and anchors, and the report for people."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from postern.cli.printing import fields, local_time
from postern.domain.sessions.ledger import moment
from postern.domain.text import one_line
from postern.errors import Invalid, Malformed
from postern.proof.proof_checkpoints import read_pem
from postern.proof.proof_findings import VerificationReport

_EVERY = 4 * 1024 * 1024  # bytes between two updates of the progress


def read_keys(files: tuple[str, ...]) -> list[bytes]:
    """Raises Invalid."""
    keys: list[bytes] = []
    for file in files:
        try:
            keys += read_pem(_content(file))
        except Malformed as error:
            raise Invalid(f"{file}: {error.message}") from None
    return keys


def read_anchors(files: tuple[str, ...]) -> list[bytes]:
    """Return the files' lines. Raises Invalid."""
    return [line for file in files for line in _content(file).splitlines() if line.strip()]


def _content(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}") from None


def counter(word: str, every: int = _EVERY, unit: int = 1024 * 1024) -> Callable[[int], None]:
    """Return a function that shows progress at a terminal."""
    done, reported = 0, 0

    def count(more: int) -> None:
        nonlocal done, reported
        done += more
        if sys.stderr.isatty() and done - reported >= every:
            reported = done
            click.echo(f"\r{done // unit} {word}", err=True, nl=False)

    return count


def show(report: VerificationReport) -> None:
    since, until = (time and local_time(moment(time)) for time in (report.since, report.until))
    proven_at = local_time(moment(report.proven_at)) if report.proven_at else None
    fields(
        [
            ("organisation", report.organisation),
            ("sessions from", since or "the first"),
            ("sessions until", until or "the last"),
            ("proven up to", f"entry {report.proven_to}, signed {proven_at}" if proven_at else "nothing"),
            ("checkpoints", f"{report.checkpoints} trusted, {report.anchored} more from anchors"),
            ("sessions proven", f"{report.sessions_proven}, in {report.segments_proven} segments"),
            ("bytes proven", report.bytes_proven),
            ("records proven", f"{report.records_proven}, of the audit log and of reviews"),
        ]
    )
    for line in (*_not_proven(report), *report.notes):
        click.echo(f"not proven: {one_line(line)}")
    for finding in report.findings:
        click.echo(f"FOUND {finding.what}: {one_line(finding.message)}")
    if report.count > len(report.findings):
        click.echo(f"and {report.count - len(report.findings)} more findings")
    findings = "1 finding" if report.count == 1 else f"{report.count} findings"
    click.echo("Nothing was changed." if report.is_good else f"{findings}: the record was changed.")


def _not_proven(report: VerificationReport) -> list[str]:
    counted = [
        (report.sessions_open, "sessions are not closed in the ledger: their start is proven, their content is not"),
        (report.sessions_pending, "sessions are newer than the newest checkpoint"),
        (report.sessions_incomplete, "sessions were closed before all of their segments arrived"),
        (report.sessions_purged, "sessions were purged, and the ledger records it"),
        (report.segments_unproven, "segments belong to sessions that are not closed, or were not checked"),
        (report.records_pending, "records of the audit log and of reviews are newer than the newest checkpoint"),
        (report.after_checkpoint, "entries of the ledger are newer than the newest checkpoint"),
    ]
    return [f"{count} {text}" for count, text in counted if count]

"""Bodies of reports: numbers of an organisation."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date, datetime

from pydantic import Field

from postern.api.schemas.common import Answer
from postern.domain.report import Activity, Counts, GroupBy, Interval, MaskedCount
from postern.domain.reviews.review_report import ReviewsBy
from postern.services.notifications.reports import ActivityReport, MaskingReport, ReviewReport


class MaskedAnswer(Answer):
    resource: str = Field(description="The session, user, connection or other key of the group")
    info_type: str
    redact_total: int = Field(description="Number of masked values")

    @classmethod
    def of(cls, line: MaskedCount) -> MaskedAnswer:
        return cls(resource=line.resource, info_type=line.info_type, redact_total=line.redact_total)


class MaskingReportAnswer(Answer):
    start_date: date
    end_date: date = Field(description="Day after the last day")
    group_by: GroupBy
    items: list[MaskedAnswer] = Field(description="Most masked values first")
    total: int = Field(description="Number of items on all pages")
    has_next_page: bool
    total_redact_count: int = Field(description="Sum over all pages")
    total_transformed_bytes: int | None = Field(
        description="Bytes of the masked values in all of these sessions; null with the filter `id`"
    )
    total_sessions: int | None = Field(
        description="Ended sessions, with or without masked values; null with the filter `id`"
    )

    @classmethod
    def of(cls, report: MaskingReport, group: GroupBy, *, is_single: bool, offset: int) -> MaskingReportAnswer:
        """Return the report; `is_single`: it is about one session."""
        items = [MaskedAnswer.of(line) for line in report.lines.items]
        return cls(
            start_date=report.start,
            end_date=report.end,
            group_by=group,
            items=items,
            total=report.lines.total,
            has_next_page=offset + len(items) < report.lines.total,
            total_redact_count=report.redact_count,
            total_transformed_bytes=None if is_single else report.counts.transformed_bytes,
            total_sessions=None if is_single else report.counts.sessions,
        )


class CountsAnswer(Answer):
    sessions: int = Field(description="Sessions that began in this time, and have ended")
    failed: int = Field(description="Number of these that could not be opened, or ended with a fault")
    killed: int = Field(description="Number of these that were killed, or lost their access")
    operations: int = Field(description="Statements and commands")
    refused: int = Field(description="Number of these that a guardrail denied")
    masked: int = Field(description="Masked values")
    transformed_bytes: int = Field(description="Bytes of the masked values")
    recorded_bytes: int
    duration_ms: int = Field(description="Sum over all sessions")

    @classmethod
    def of(cls, counts: Counts) -> CountsAnswer:
        return cls(**_numbers(counts))


class ActivityAnswer(CountsAnswer):
    start: datetime = Field(description="Start of the hour, day, week or month, in the requested time zone")
    group: str | None

    @classmethod
    def at(cls, line: Activity) -> ActivityAnswer:
        return cls(start=line.start, group=line.group, **_numbers(line.counts))


class ActivityReportAnswer(Answer):
    start_date: date
    end_date: date = Field(description="Day after the last day")
    by: Interval
    time_zone: str
    group_by: GroupBy | None
    items: list[ActivityAnswer]
    total: CountsAnswer

    @classmethod
    def of(cls, report: ActivityReport, by: Interval, zone: str, group: GroupBy | None) -> ActivityReportAnswer:
        return cls(
            start_date=report.start,
            end_date=report.end,
            by=by,
            time_zone=zone,
            group_by=group,
            items=[ActivityAnswer.at(line) for line in report.lines],
            total=CountsAnswer.of(report.total),
        )


def _numbers(counts: Counts) -> dict[str, int]:
    names = ("sessions", "failed", "killed", "operations", "refused", "masked", "transformed_bytes", "recorded_bytes")
    return {name: getattr(counts, name) for name in names} | {"duration_ms": counts.milliseconds}


class ReviewSumsAnswer(Answer):
    asked: int
    waiting: int = Field(description="Number of these that are undecided")
    approved: int = Field(description="Regardless of what happened later")
    rejected: int
    expired: int = Field(description="Without a decision")
    withdrawn: int = Field(description="By the requester, before a decision")
    revoked: int = Field(description="Number of the approved ones that were revoked")
    forced: int = Field(description="Approved alone by a member of a force group")
    own: int = Field(description="Approved by the requester, among others")
    median_seconds: float | None = Field(description="From the request to the decision; null if nothing was decided")
    longest_seconds: float | None


class ReviewLineAnswer(ReviewSumsAnswer):
    resource: str = Field(description="The connection, the reviewers' group, or the type")


class ReviewReportAnswer(Answer):
    start_date: date
    end_date: date = Field(description="Day after the last day")
    group_by: ReviewsBy
    items: list[ReviewLineAnswer] = Field(
        description="Most requests first; a review of several groups is counted in each"
    )
    total: ReviewSumsAnswer = Field(description="Each review counts once")

    @classmethod
    def of(cls, report: ReviewReport, by: ReviewsBy) -> ReviewReportAnswer:
        items = [ReviewLineAnswer(resource=resource, **asdict(sums)) for resource, sums in report.lines]
        total = ReviewSumsAnswer(**asdict(report.total))
        return cls(start_date=report.start, end_date=report.end, group_by=by, items=items, total=total)

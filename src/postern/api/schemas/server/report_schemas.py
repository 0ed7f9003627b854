"""Reports: numbers of an organisation."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date, datetime

from pydantic import Field

from postern.api.schemas.common import Answer
from postern.domain.report import Activity, Counts, GroupBy, Interval, MaskedCount
from postern.domain.reviews.review_report import ReviewsBy
from postern.services.notifications.reports import ActivityReport, MaskingReport, ReviewReport


class MaskedAnswer(Answer):
    resource: str = Field(description="The session, user, connection or whatever the report is grouped by")
    info_type: str
    redact_total: int = Field(description="How many values were masked")

    @classmethod
    def of(cls, line: MaskedCount) -> MaskedAnswer:
        return cls(resource=line.resource, info_type=line.info_type, redact_total=line.redact_total)


class MaskingReportAnswer(Answer):
    start_date: date
    end_date: date = Field(description="The day after the last")
    group_by: GroupBy
    items: list[MaskedAnswer] = Field(description="Most masked first")
    total: int = Field(description="How many items there are over all pages")
    has_next_page: bool
    total_redact_count: int = Field(description="Over all pages")
    total_transformed_bytes: int | None = Field(description="Of all of these sessions; null with the filter `id`")
    total_sessions: int | None = Field(description="Ended ones, masked or not; null with the filter `id`")

    @classmethod
    def of(cls, report: MaskingReport, group: GroupBy, *, one: bool, offset: int) -> MaskingReportAnswer:
        """`one`: it is about one session."""
        items = [MaskedAnswer.of(line) for line in report.lines.items]
        return cls(
            start_date=report.start,
            end_date=report.end,
            group_by=group,
            items=items,
            total=report.lines.total,
            has_next_page=offset + len(items) < report.lines.total,
            total_redact_count=report.redact_count,
            total_transformed_bytes=None if one else report.counts.transformed_bytes,
            total_sessions=None if one else report.counts.sessions,
        )


class CountsAnswer(Answer):
    sessions: int = Field(description="That began then, and have ended")
    failed: int = Field(description="Of these, could not be opened or broke off by a fault")
    killed: int = Field(description="Of these, were killed, or lost their access")
    operations: int = Field(description="Statements, commands")
    refused: int = Field(description="Of these, were refused by a guard rail")
    masked: int = Field(description="Values")
    transformed_bytes: int = Field(description="Of the masked values")
    recorded_bytes: int
    duration_ms: int = Field(description="Of all sessions together")

    @classmethod
    def of(cls, counts: Counts) -> CountsAnswer:
        return cls(**_numbers(counts))


class ActivityAnswer(CountsAnswer):
    start: datetime = Field(description="Where the hour, day, week or month begins, in the asked time zone")
    group: str | None

    @classmethod
    def at(cls, line: Activity) -> ActivityAnswer:
        return cls(start=line.start, group=line.group, **_numbers(line.counts))


class ActivityReportAnswer(Answer):
    start_date: date
    end_date: date = Field(description="The day after the last")
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
    waiting: int = Field(description="Of these, undecided yet")
    approved: int = Field(description="Whatever became of it later")
    rejected: int
    expired: int = Field(description="Without a decision")
    withdrawn: int = Field(description="By who asked, before there was a decision")
    revoked: int = Field(description="Of the approved")
    forced: int = Field(description="Approved by one who may do so alone")
    own: int = Field(description="Approved by who had asked, too")
    median_seconds: float | None = Field(description="From asking to decision; null where nothing was decided")
    longest_seconds: float | None


class ReviewLineAnswer(ReviewSumsAnswer):
    resource: str = Field(description="The connection, the reviewers' group, or the kind")


class ReviewReportAnswer(Answer):
    start_date: date
    end_date: date = Field(description="The day after the last")
    group_by: ReviewsBy
    items: list[ReviewLineAnswer] = Field(description="Most asked for first; a review of several groups is in each")
    total: ReviewSumsAnswer = Field(description="Each review once")

    @classmethod
    def of(cls, report: ReviewReport, by: ReviewsBy) -> ReviewReportAnswer:
        items = [ReviewLineAnswer(resource=resource, **asdict(sums)) for resource, sums in report.lines]
        total = ReviewSumsAnswer(**asdict(report.total))
        return cls(start_date=report.start, end_date=report.end, group_by=by, items=items, total=total)

"""Reports: masked values, sessions and reviews over time."""

from __future__ import annotations

from datetime import date
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.paging import Paging
from postern.api.responses import errors
from postern.api.schemas.server.report_schemas import ActivityReportAnswer, MaskingReportAnswer, ReviewReportAnswer
from postern.domain.report import GroupBy, Interval, ReportFilter
from postern.domain.reviews.review_report import ReviewsBy
from postern.domain.sessions.session import Verb
from postern.services.notifications.reports import ReportDays

router = APIRouter(prefix="/reports", tags=["Reports"], route_class=AuditedRoute)


async def _days(
    start_date: Annotated[date | None, Query(description="First day, such as 2026-01-31")] = None,
    end_date: Annotated[date | None, Query(description="Day after the last day")] = None,
    time_zone: Annotated[str, Query(max_length=64, description="Time zone of the days, such as Europe/Berlin")] = "UTC",
) -> ReportDays:
    return ReportDays(start_date, end_date, time_zone)


async def _read_filter(
    user: Annotated[str | None, Query(description="E-mail")] = None,
    connection: Annotated[str | None, Query(description="Name")] = None,
    type: str | None = None,  # noqa: A002 - the API's name
    verb: Verb | None = None,
) -> ReportFilter:
    return ReportFilter(user=user, connection=connection, type=type, verb=verb)


Days = Annotated[ReportDays, Depends(_days)]
Filters = Annotated[ReportFilter, Depends(_read_filter)]


@router.get("/sessions", responses=errors(403))
async def report_sessions(
    caller: Caller,
    services: Use,
    days: Days,
    report_query: Filters,
    page: Paging,
    group_by: GroupBy = GroupBy.CONNECTION,
    id: Annotated[UUID | None, Query(description="Only this session; with group_by=id")] = None,  # noqa: A002 - the API's name
) -> MaskingReportAnswer:
    """Return how many values were masked, by information type, in sessions that began in these days and have ended;
    default: today, at most a year. For administrators and auditors."""
    report_filter = ReportFilter(id, report_query.user, report_query.connection, report_query.type, report_query.verb)
    report = await services.reports.masking(caller, report_filter, days, group_by, page)
    return MaskingReportAnswer.of(report, group_by, is_single=id is not None, offset=page.offset)


@router.get("/activity", responses=errors(403))
async def report_activity(
    caller: Caller,
    services: Use,
    days: Days,
    report_query: Filters,
    by: Interval = Interval.DAY,
    group_by: GroupBy | None = None,
) -> ActivityReportAnswer:
    """Return sessions and denials over time, for sessions that have ended, by their start. Default: the last 30 days,
    at most a year; by the hour: today, at most 31 days. For administrators and auditors."""
    report = await services.reports.activity(caller, report_query, days, by, group_by)
    return ActivityReportAnswer.of(report, by, days.time_zone, group_by)


@router.get("/reviews", responses=errors(403))
async def report_reviews(
    caller: Caller, services: Use, days: Days, group_by: ReviewsBy = ReviewsBy.CONNECTION
) -> ReviewReportAnswer:
    """Return the outcome of reviews that were requested in these days, and how long they waited for a decision;
    default: the last 30 days, at most a year. For administrators and auditors."""
    return ReviewReportAnswer.of(await services.reports.reviews(caller, days, group_by), group_by)


@router.post("/rebuild", status_code=202, responses=errors(403, 409))
async def rebuild_reports(caller: Caller, services: Use) -> None:
    """Recount all ended sessions of the organisation, in the background. For administrators."""
    await services.postprocessing.rebuild(caller)

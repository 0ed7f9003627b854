import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useMemo } from "react";
import { useUser } from "../../api/account";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { toCsv } from "../../engines/csv";
import { formatNumber } from "../../engines/numbers";
import { daysBetween } from "../../engines/periods";
import { language } from "../../messages";
import { common } from "../../messages/common";
import { Choice } from "../../parts/choice";
import { Confirm } from "../../parts/confirm";
import { Copy } from "../../parts/copy";
import { Download } from "../../parts/download";
import { Failure, Notice } from "../../parts/notice";
import { Section } from "../../parts/section";
import { Stats } from "../../parts/stats";
import { type Column, Skeleton, Table } from "../../parts/table";
import type { TimeSeries } from "../../parts/time-chart";
import { ActivityGroups } from "./activity-groups";
import {
  INTERVALS,
  type Interval,
  type Period,
  periodOf,
  periodQuery,
  type ReportSearch,
  reportSearch,
} from "./filters";
import { text } from "./messages";
import { ReportPage } from "./report-page";

type Report = components["schemas"]["ActivityReportAnswer"];
type Row = components["schemas"]["ActivityAnswer"];

const TimeChart = lazy(() => import("../../parts/time-chart").then(({ TimeChart }) => ({ default: TimeChart })));
const FIELDS = ["start", "sessions", "operations", "refused", "failed", "killed", "masked"] as const;

/** Sessions and denials over time, and by connection, user, type and kind of access. */
export function ActivityScreen() {
  const search = reportSearch(useSearch({ from: "/shell/reports" }));
  const period = periodOf(search);
  const by = search.by ?? usualInterval(period);
  const narrow = narrowed(search);
  const report = useQuery({
    queryKey: ["reports", "activity", period, by, narrow],
    placeholderData: keepPreviousData,
    queryFn: () =>
      unwrap(api.GET("/api/reports/activity", { params: { query: { ...periodQuery(period), ...narrow, by } } })),
  });
  return (
    <ReportPage path="/reports" search={search} aside={<Rebuild />}>
      {report.error && <Failure error={report.error} onRetry={() => void report.refetch()} />}
      {report.isPending && <Skeleton />}
      {report.data && <Activity report={report.data} period={period} by={by} />}
      {report.data && report.data.total.sessions === 0 && <Nothing />}
      {report.data && report.data.total.sessions > 0 && <ActivityGroups period={period} search={search} />}
    </ReportPage>
  );
}

export function narrowed({ connection, user }: ReportSearch) {
  return { ...(connection && { connection }), ...(user && { user }) };
}

function usualInterval({ from, to }: Period): Interval {
  const days = daysBetween(from, to);
  if (days <= 2) return "hour";
  return days <= 92 ? "day" : "week";
}

function Activity({ report, period, by }: { report: Report; period: Period; by: Interval }) {
  const { total } = report;
  const navigate = useNavigate({ from: "/reports" });
  const csv = () =>
    toCsv(
      FIELDS,
      report.items.map((row) => FIELDS.map((field) => row[field])),
    );
  const sums = [
    [text.sessions, total.sessions],
    [text.operations, total.operations],
    [text.refused, total.refused],
    [text.failed, total.failed],
    [text.killed, total.killed],
    [text.masked, total.masked],
  ] as const;
  return (
    <>
      <Stats label={text.sums} stats={sums.map(([name, sum]) => [name, formatNumber(sum, language)] as const)} />
      <Section
        title={text.views.activity}
        actions={
          <div className="row">
            <Choice
              label={text.by}
              isInline
              value={by}
              options={INTERVALS.map((interval) => [interval, text.intervals[interval]] as const)}
              onChange={(by) => void navigate({ search: (before) => ({ ...before, by }) })}
            />
            <Download label={common.downloadCsv} name="activity.csv" content={csv} />
          </div>
        }
      >
        <Suspense fallback={<Skeleton rows={6} />}>
          <Chart rows={report.items} period={period} by={by} />
        </Suspense>
        <Numbers rows={report.items} period={period} by={by} />
      </Section>
    </>
  );
}

function Chart({ rows, period, by }: { rows: Row[]; period: Period; by: Interval }) {
  const formatTime = useTimeFormat(period.zone, by);
  const times = useMemo(() => rows.map(({ start }) => Date.parse(start) / 1_000), [rows]);
  const series = useMemo<TimeSeries[]>(
    () => [
      { title: text.sessions, color: "accent", values: rows.map(({ sessions }) => sessions) },
      { title: text.refused, color: "refused", values: rows.map(({ refused }) => refused) },
    ],
    [rows],
  );
  const label = text.chart(period.from, period.to, period.zone);
  return <TimeChart label={label} times={times} series={series} formatTime={formatTime} />;
}

function Numbers({ rows, period, by }: { rows: Row[]; period: Period; by: Interval }) {
  const formatTime = useTimeFormat(period.zone, by);
  const columns: Column<Row>[] = [
    { title: text.time, cell: ({ start }) => formatTime(Date.parse(start) / 1_000) },
    ...(["sessions", "operations", "refused", "failed", "killed", "masked"] as const).map((name) => ({
      title: text[name],
      cell: (row: Row) => formatNumber(row[name], language),
    })),
  ];
  return (
    <details>
      <summary>{text.numbers}</summary>
      <Table label={text.views.activity} columns={columns} rows={rows} keyOf={({ start }) => start} />
    </details>
  );
}

function useTimeFormat(timeZone: string, by: Interval): (seconds: number) => string {
  const format = useMemo(
    () =>
      new Intl.DateTimeFormat(language, {
        timeZone,
        ...(by === "month" ? { month: "short", year: "numeric" } : { day: "numeric", month: "short" }),
        ...(by === "hour" && { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }),
      }),
    [timeZone, by],
  );
  return useCallback((seconds: number) => format.format(seconds * 1_000), [format]);
}

function Rebuild() {
  const user = useUser();
  const rebuild = useMutation({ mutationFn: () => unwrap(api.POST("/api/reports/rebuild")) });
  if (user?.role !== "admin") return null;
  return (
    <div className="row">
      {rebuild.isSuccess && (
        <Notice kind="ok">
          <p>{text.rebuild.done}</p>
        </Notice>
      )}
      <Confirm label={text.rebuild.label} title={text.rebuild.title} action={() => rebuild.mutateAsync()}>
        {text.rebuild.text}
      </Confirm>
    </div>
  );
}

function Nothing() {
  return (
    <div className="stack">
      <p>
        {text.none} {text.noneHint}
      </p>
      <Copy label={text.noneHint} text={text.command} />
    </div>
  );
}

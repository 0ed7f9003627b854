import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { formatNumber } from "../../engines/numbers";
import { duration } from "../../engines/times";
import { language } from "../../messages";
import { common } from "../../messages/common";
import { Copy } from "../../parts/copy";
import { MarkedText } from "../../parts/marked-text";
import { Measure } from "../../parts/measure";
import { Failure } from "../../parts/notice";
import { Stats } from "../../parts/stats";
import { type Column, Skeleton } from "../../parts/table";
import { type Period, periodOf, periodQuery, reportSearch } from "./filters";
import { GroupTable } from "./group-table";
import { text } from "./messages";
import { ReportPage } from "./report-page";

type Sums = components["schemas"]["ReviewSumsAnswer"];
type Line = components["schemas"]["ReviewLineAnswer"];
type ReviewsBy = components["schemas"]["ReviewsBy"];

const GROUPS: ReviewsBy[] = ["connection", "group", "kind"];
const COUNTS = ["approved", "rejected", "expired", "withdrawn", "waiting"] as const;
const FIELDS = [
  ...(["asked", "approved", "rejected", "revoked", "expired", "withdrawn", "waiting"] as const),
  ...(["forced", "own", "median_seconds", "longest_seconds"] as const),
] as const;

/** What became of reviews, and how long they waited for a decision. */
export function ReviewsReportScreen() {
  const search = reportSearch(useSearch({ from: "/shell/reports/reviews" }));
  const period = periodOf(search);
  const report = useReviewReport("connection", period);
  return (
    <ReportPage path="/reports/reviews" search={search} isNarrowed={false}>
      {report.error && <Failure error={report.error} onRetry={() => void report.refetch()} />}
      {report.isPending && <Skeleton />}
      {report.data && <Total sums={report.data.total} />}
      {report.data?.total.asked === 0 && <Nothing />}
      {report.data &&
        report.data.total.asked > 0 &&
        GROUPS.map((group) => <ReviewGroup key={group} group={group} period={period} />)}
    </ReportPage>
  );
}

function useReviewReport(group: ReviewsBy, period: Period) {
  return useQuery({
    queryKey: ["reports", "reviews", group, period],
    placeholderData: keepPreviousData,
    queryFn: () => {
      const query = { ...periodQuery(period), group_by: group };
      return unwrap(api.GET("/api/reports/reviews", { params: { query } }));
    },
  });
}

function Total({ sums }: { sums: Sums }) {
  const counts = (["asked", ...COUNTS, "revoked", "forced", "own"] as const).map(
    (name) => [text.reviews[name], formatNumber(sums[name], language)] as const,
  );
  const waits = [
    [text.reviews.median, waitOf(sums.median_seconds)],
    [text.reviews.longest, waitOf(sums.longest_seconds)],
  ] as const;
  return <Stats label={text.sums} stats={[...counts, ...waits]} />;
}

function ReviewGroup({ group, period }: { group: ReviewsBy; period: Period }) {
  const report = useReviewReport(group, period);
  if (report.error) return <Failure error={report.error} onRetry={() => void report.refetch()} />;
  if (!report.data) return <Skeleton rows={4} />;
  const rows = report.data.items;
  const columns: Column<Line>[] = [
    { title: text.reviews.resource, cell: ({ resource }) => <ResourceName group={group} name={resource} /> },
    {
      title: text.reviews.asked,
      cell: ({ asked }) => <Measure value={asked} largest={rows[0]?.asked ?? 0} kind="held" />,
    },
    ...COUNTS.map((name) => ({
      title: text.reviews[name],
      cell: (line: Line) => formatNumber(line[name], language),
    })),
    { title: text.reviews.median, cell: ({ median_seconds }) => waitOf(median_seconds) },
    { title: text.reviews.longest, cell: ({ longest_seconds }) => waitOf(longest_seconds) },
  ];
  return (
    <GroupTable
      title={text.groups[group]}
      columns={columns}
      rows={rows}
      keyOf={({ resource }) => resource}
      csv={{
        name: `reviews-by-${group}.csv`,
        columns: [group, ...FIELDS],
        values: (line) => [line.resource, ...FIELDS.map((field) => line[field])],
      }}
    />
  );
}

function ResourceName({ group, name }: { group: ReviewsBy; name: string }) {
  if (group === "kind") return common.reviewKinds[name as keyof typeof common.reviewKinds] ?? name;
  return name ? <MarkedText text={name} /> : text.unnamed;
}

function waitOf(seconds: number | null): string {
  if (seconds === null) return text.reviews.undecided;
  return duration(Math.max(Math.round(seconds), 1), language);
}

function Nothing() {
  return (
    <div className="stack">
      <p>
        {text.reviews.none} {text.reviews.noneHint}
      </p>
      <Copy label={text.reviews.noneHint} text={text.reviews.command} />
    </div>
  );
}

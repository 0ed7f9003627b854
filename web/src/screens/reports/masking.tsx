import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { formatBytes, formatNumber } from "../../engines/numbers";
import { sumTypes } from "../../engines/reports";
import { language } from "../../messages";
import { Choice } from "../../parts/choice";
import { Copy } from "../../parts/copy";
import { Measure } from "../../parts/measure";
import { Failure } from "../../parts/notice";
import { Stats } from "../../parts/stats";
import { type Column, Skeleton } from "../../parts/table";
import { narrowed } from "./activity";
import { GroupName, SessionsLink } from "./activity-groups";
import {
  MASKED_BY,
  type MaskedBy,
  type Period,
  periodOf,
  periodQuery,
  type ReportSearch,
  reportSearch,
} from "./filters";
import { GroupTable } from "./group-table";
import { text } from "./messages";
import { ReportPage } from "./report-page";

type Report = components["schemas"]["MaskingReportAnswer"];
type Masked = components["schemas"]["MaskedAnswer"];

const PAGE = 100;
const MOST = 2_000; // rows of one report; nobody reads more, and the file says all of these

/** How many values were masked, by information type, and where. */
export function MaskingScreen() {
  const search = reportSearch(useSearch({ from: "/shell/reports/masking" }));
  const navigate = useNavigate({ from: "/reports/masking" });
  const period = periodOf(search);
  const group = search.group ?? "connection";
  const report = useQuery({
    queryKey: ["reports", "masking", period, group, narrowed(search)],
    placeholderData: keepPreviousData,
    queryFn: () => readReport(period, group, search),
  });
  return (
    <ReportPage path="/reports/masking" search={search}>
      {report.error && <Failure error={report.error} onRetry={() => void report.refetch()} />}
      {report.isPending && <Skeleton />}
      {report.data && <Sums report={report.data} />}
      {report.data?.items.length === 0 && <Nothing />}
      {report.data && report.data.items.length > 0 && (
        <>
          <Types rows={report.data.items} />
          <div>
            <Choice
              label={text.masking.group}
              isInline
              value={group}
              options={MASKED_BY.map((name) => [name, text.masking.groups[name]] as const)}
              onChange={(group) => void navigate({ search: (before) => ({ ...before, group }) })}
            />
          </div>
          <Resources rows={report.data.items} group={group} period={period} search={search} />
        </>
      )}
    </ReportPage>
  );
}

async function readReport(period: Period, group: MaskedBy, search: ReportSearch): Promise<Report> {
  const items: Masked[] = [];
  for (;;) {
    const query = { ...periodQuery(period), ...narrowed(search), group_by: group, limit: PAGE, offset: items.length };
    const page = await unwrap(api.GET("/api/reports/sessions", { params: { query } }));
    items.push(...page.items);
    if (!page.has_next_page || items.length >= MOST) return { ...page, items };
  }
}

function Sums({ report }: { report: Report }) {
  const stats = [
    [text.masking.values, formatNumber(report.total_redact_count, language)],
    [text.masking.bytes, formatBytes(report.total_transformed_bytes ?? 0, language)],
    [text.masking.sessions, formatNumber(report.total_sessions ?? 0, language)],
  ] as const;
  return <Stats label={text.sums} stats={stats} />;
}

function Types({ rows }: { rows: Masked[] }) {
  const types = sumTypes(rows);
  const columns: Column<(typeof types)[number]>[] = [
    { title: text.masking.infoType, cell: ({ type }) => <code>{type}</code> },
    {
      title: text.masking.values,
      cell: ({ count }) => <Measure value={count} largest={types[0]?.count ?? 0} kind="masked" />,
    },
  ];
  return (
    <GroupTable
      title={text.masking.byType}
      columns={columns}
      rows={types}
      keyOf={({ type }) => type}
      csv={{
        name: "masked-by-type.csv",
        columns: ["info_type", "redact_total"],
        values: ({ type, count }) => [type, count],
      }}
    />
  );
}

interface ResourcesProps {
  rows: Masked[];
  group: MaskedBy;
  period: Period;
  search: ReportSearch;
}

function Resources({ rows, group, period, search }: ResourcesProps) {
  const columns: Column<Masked>[] = [
    {
      title: text.masking.resource,
      cell: ({ resource }) => (
        <SessionsLink period={period} narrow={{ ...narrowed(search), [group]: resource }} onlyMasked>
          <GroupName group={group} name={resource} />
        </SessionsLink>
      ),
    },
    { title: text.masking.infoType, cell: ({ info_type }) => <code>{info_type}</code> },
    {
      title: text.masking.values,
      cell: ({ redact_total }) => <Measure value={redact_total} largest={rows[0]?.redact_total ?? 0} kind="masked" />,
    },
  ];
  return (
    <GroupTable
      title={text.masking.byResource}
      columns={columns}
      rows={rows}
      keyOf={({ resource, info_type }) => `${info_type} ${resource}`}
      csv={{
        name: `masked-by-${group}.csv`,
        columns: [group, "info_type", "redact_total"],
        values: ({ resource, info_type, redact_total }) => [resource, info_type, redact_total],
      }}
    />
  );
}

function Nothing() {
  return (
    <div className="stack">
      <p>
        {text.masking.none} {text.masking.noneHint}
      </p>
      <Copy label={text.masking.noneHint} text={text.masking.command} />
    </div>
  );
}

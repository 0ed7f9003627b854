import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { api, unwrap } from "../../api/client";
import { formatNumber } from "../../engines/numbers";
import { type GroupCounts, sumGroups } from "../../engines/reports";
import { language } from "../../messages";
import { common } from "../../messages/common";
import { MarkedText } from "../../parts/marked-text";
import { Measure } from "../../parts/measure";
import { Failure } from "../../parts/notice";
import { type Column, Skeleton } from "../../parts/table";
import { type Period, periodQuery, type ReportSearch, sessionsIn } from "./filters";
import { GroupTable } from "./group-table";
import { text } from "./messages";
import styles from "./reports.module.css";

const GROUPS = ["connection", "user", "type", "verb"] as const;
export type Group = (typeof GROUPS)[number];
const FIELDS = ["sessions", "refused", "failed", "killed", "masked"] as const;

export function ActivityGroups({ period, search }: { period: Period; search: ReportSearch }) {
  return (
    <div className={styles.groups}>
      {GROUPS.map((group) => (
        <ActivityGroup key={group} group={group} period={period} search={search} />
      ))}
    </div>
  );
}

function ActivityGroup({ group, period, search }: { group: Group; period: Period; search: ReportSearch }) {
  const { connection, user } = search;
  const narrow = { ...(connection && { connection }), ...(user && { user }) };
  const report = useQuery({
    queryKey: ["reports", "groups", group, period, narrow],
    placeholderData: keepPreviousData,
    queryFn: () => {
      const query = { ...periodQuery(period), ...narrow, group_by: group, by: "month" as const };
      return unwrap(api.GET("/api/reports/activity", { params: { query } }));
    },
  });
  if (report.error) return <Failure error={report.error} onRetry={() => void report.refetch()} />;
  if (!report.data) return <Skeleton rows={4} />;
  const rows = sumGroups(report.data.items);
  const columns: Column<GroupCounts>[] = [
    {
      title: text.columns[group],
      cell: (row) => (
        <SessionsLink period={period} narrow={{ ...narrow, [group]: row.group }}>
          <GroupName group={group} name={row.group} />
        </SessionsLink>
      ),
    },
    {
      title: text.sessions,
      cell: (row) => <Measure value={row.sessions} largest={rows[0]?.sessions ?? 0} />,
    },
    {
      title: text.refused,
      cell: (row) => <Measure value={row.refused} largest={Math.max(...rows.map((r) => r.refused))} kind="refused" />,
    },
    { title: text.failed, cell: (row) => formatNumber(row.failed, language) },
  ];
  return (
    <GroupTable
      title={text.groups[group]}
      columns={columns}
      rows={rows}
      keyOf={(row) => row.group}
      csv={{
        name: `sessions-by-${group}.csv`,
        columns: [group, ...FIELDS],
        values: (row) => [row.group, ...FIELDS.map((field) => row[field])],
      }}
    />
  );
}

export function GroupName({ group, name }: { group: Group; name: string }) {
  if (group === "verb") return common.verbs[name as keyof typeof common.verbs] ?? name;
  return name ? <MarkedText text={name} /> : text.unnamed;
}

interface LinkProps {
  period: Period;
  narrow: { [group in Group]?: string };
  onlyMasked?: boolean;
  children: ReactNode;
}

/** A link to the list of the sessions that a row counts. */
export function SessionsLink({ period, narrow, onlyMasked, children }: LinkProps) {
  const { verb, ...texts } = narrow;
  const search = {
    ...texts,
    ...sessionsIn(period),
    ...((verb === "connect" || verb === "exec") && { verb: verb as "connect" | "exec" }),
    ...(onlyMasked && { masked: "yes" as const }),
  };
  return (
    <Link to="/sessions" search={search}>
      {children}
    </Link>
  );
}

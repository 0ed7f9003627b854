import { Link, useNavigate } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { ownZone } from "../../engines/periods";
import { counted } from "../../messages";
import { type Filter, Filters } from "../../parts/filters";
import { Page } from "../../parts/page";
import { Views } from "../../parts/views";
import { lastDays, periodOf, type ReportFilter, type ReportSearch } from "./filters";
import { text } from "./messages";
import styles from "./reports.module.css";

export type ReportPath = "/reports" | "/reports/masking" | "/reports/reviews";

const VIEWS: [ReportPath, string][] = [
  ["/reports", text.views.activity],
  ["/reports/masking", text.views.masking],
  ["/reports/reviews", text.views.reviews],
];
const PERIODS = [1, 7, 30, 90, 365];

interface Props {
  path: ReportPath;
  search: ReportSearch;
  /** Whether it can be narrowed to a connection or a user. */
  isNarrowed?: boolean;
  aside?: ReactNode;
  children: ReactNode;
}

/** What all reports have: the period and its zone, and the way from one report to another with the same period. */
export function ReportPage({ path, search, isNarrowed = true, aside, children }: Props) {
  const navigate = useNavigate();
  const { from, to, zone } = periodOf(search);
  const { by, group, ...filters } = search;
  const change = (values: { [name in ReportFilter]?: string }) =>
    void navigate({ to: path, search: { ...values, ...(by && { by }), ...(group && { group }) } });
  return (
    <Page title={text.title} aside={aside}>
      <Views label={text.title}>
        {VIEWS.map(([to, title]) => (
          <Link
            key={to}
            to={to}
            search={filters}
            activeOptions={{ exact: true, includeSearch: false }}
            aria-current={to === path ? "page" : undefined}
          >
            {title}
          </Link>
        ))}
      </Views>
      <nav className={styles.periods} aria-label={text.periods}>
        {PERIODS.map((days) => {
          const period = lastDays(days, search);
          const isCurrent = period.from === from && period.to === to;
          return (
            <Link
              key={days}
              to={path}
              search={(before: ReportSearch) => ({ ...before, ...period })}
              activeProps={{}}
              aria-current={isCurrent ? "true" : undefined}
            >
              {counted(text.lastDays, days)}
            </Link>
          );
        })}
        <span className="secondary">
          {from} – {to} ({zone})
        </span>
      </nav>
      <Filters filters={filtersOf(zone, isNarrowed)} values={filters} onChange={change} />
      {children}
    </Page>
  );
}

function filtersOf(zone: string, isNarrowed: boolean): Filter<ReportFilter>[] {
  const zones = [...new Set([ownZone(), zone, ...Intl.supportedValuesOf("timeZone")])].filter((name) => name !== "UTC");
  const options = zones.map((name) => [name, name] as const);
  return [
    { name: "from", label: text.from, type: "date" },
    { name: "to", label: text.to, type: "date" },
    { name: "zone", label: text.zone, options, none: text.utc },
    ...(isNarrowed
      ? [
          { name: "connection" as const, label: text.connection },
          { name: "user" as const, label: text.user },
        ]
      : []),
  ];
}

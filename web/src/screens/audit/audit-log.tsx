import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { api, unwrap } from "../../api/client";
import { type Place, usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { chosenColumns } from "../../engines/columns";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Copy } from "../../parts/copy";
import { type Filter, Filters } from "../../parts/filters";
import { List } from "../../parts/list";
import { ListViews } from "../../parts/list-views";
import { MarkedText } from "../../parts/marked-text";
import { Page } from "../../parts/page";
import type { ListColumn } from "../../parts/table";
import { Time } from "../../parts/time";
import { AuditExport } from "./audit-export";
import { type AuditFilter, type AuditSearch, auditQuery, auditSearch, METHODS } from "./filters";
import { text } from "./messages";
import { Outcome } from "./outcome";

type Entry = components["schemas"]["AuditEntryAnswer"];

const FILTERS: readonly Filter<AuditFilter>[] = [
  { name: "from", label: text.from, type: "date" },
  { name: "to", label: text.to, type: "date" },
  { name: "actor", label: text.actor },
  { name: "action", label: text.action },
  { name: "type", label: text.type },
  { name: "resource", label: text.object },
  { name: "outcome", label: text.outcome, options: Object.entries(text.outcomes) },
  { name: "method", label: text.method, options: METHODS.map((method) => [method, method] as const) },
  { name: "path", label: text.path },
  { name: "code", label: text.status },
  { name: "ip", label: text.ip },
];

const COLUMNS: ListColumn<Entry>[] = [
  {
    name: "time",
    title: text.time,
    cell: ({ id, created_at }) => (
      <Link to="/audit/$id" params={{ id }}>
        <Time at={created_at} isExact />
      </Link>
    ),
  },
  { name: "actor", title: text.actor, cell: (entry) => <MarkedText text={actorOf(entry)} /> },
  { name: "action", title: text.action, cell: ({ action }) => <MarkedText text={action} /> },
  {
    name: "object",
    title: text.object,
    cell: ({ resource_type, resource }) => (
      <span className="mono">
        <MarkedText text={resource ? `${resource_type} / ${resource}` : resource_type} />
      </span>
    ),
  },
  { name: "outcome", title: text.outcome, cell: (entry) => <Outcome entry={entry} /> },
  {
    name: "ip",
    title: text.ip,
    cell: ({ client_ip }) => (
      <span className="mono">
        <MarkedText text={client_ip} />
      </span>
    ),
  },
  {
    name: "request",
    title: text.request,
    cell: ({ http_method, http_path }) => (
      <span className="mono">
        <MarkedText text={`${http_method} ${http_path}`} />
      </span>
    ),
    isExtra: true,
  },
  { name: "status", title: text.status, cell: ({ http_status }) => http_status, isExtra: true },
];

export function actorOf({ actor_email, actor_subject }: Pick<Entry, "actor_email" | "actor_subject">): string {
  return actor_email || actor_subject || text.noActor;
}

/** Who changed what, and who tried to: the newest first. */
export function AuditLogScreen() {
  const search = auditSearch(useSearch({ from: "/shell/audit" }));
  const { columns, ...filters } = search;
  const navigate = useNavigate({ from: "/audit" });
  const read = (place: Place) =>
    unwrap(api.GET("/api/audit/logs", { params: { query: { ...place, ...auditQuery(filters) } } }));
  const go = (search: AuditSearch) => void navigate({ search });
  const pages = usePages(["audit", filters], read);
  const isNarrowed = Object.keys(filters).length > 0;
  return (
    <Page title={text.title} aside={<AuditExport search={search} />}>
      <Filters
        filters={FILTERS}
        values={filters}
        onChange={(values: AuditSearch) => go({ ...values, ...(columns && { columns }) })}
      />
      <ListViews
        list="audit"
        search={search}
        columns={COLUMNS}
        onColumns={(names) => go({ ...filters, ...(names !== undefined && { columns: names }) })}
      />
      <List
        label={text.title}
        pages={pages}
        columns={chosenColumns(COLUMNS, columns)}
        keyOf={(entry) => entry.id}
        count={(total) => (total >= 10_000 ? text.countAtLeast(total) : counted(text.count, total))}
        none={isNarrowed ? <p>{common.nothingFits}</p> : <Nothing />}
      />
    </Page>
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

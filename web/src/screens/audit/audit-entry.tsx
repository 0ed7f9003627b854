import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useRouter } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { type Change, changesBetween } from "../../engines/changes";
import { screenOf } from "../../engines/objects";
import { Copy } from "../../parts/copy";
import { Facts } from "../../parts/facts";
import { Json } from "../../parts/json";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import { Page } from "../../parts/page";
import { Section } from "../../parts/section";
import { type Column, Skeleton, Table } from "../../parts/table";
import { Time } from "../../parts/time";
import styles from "./audit.module.css";
import { actorOf } from "./audit-log";
import { text } from "./messages";
import { Outcome } from "./outcome";

type Entry = components["schemas"]["AuditEntryAnswer"];

const COLUMNS: Column<Change>[] = [
  {
    title: text.entry.field,
    cell: ({ field }) => (
      <span className="mono">
        <MarkedText text={field} />
      </span>
    ),
  },
  { title: text.entry.before, cell: ({ before }) => before !== undefined && <Side kind="before" value={before} /> },
  { title: text.entry.after, cell: ({ after }) => after !== undefined && <Side kind="after" value={after} /> },
];

/** One entry: who, what, from where, what it changed, and the request. */
export function AuditEntryScreen() {
  const { id } = useParams({ from: "/shell/audit/$id" });
  const query = useQuery({
    queryKey: ["audit entry", id],
    staleTime: Number.POSITIVE_INFINITY, // an entry never changes
    queryFn: () => unwrap(api.GET("/api/audit/logs/{id}", { params: { path: { id } } })),
  });
  return (
    <Page title={text.entry.title} aside={<Link to="/audit">{text.entry.back}</Link>}>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      {query.data && <EntryDetails entry={query.data} />}
    </Page>
  );
}

function EntryDetails({ entry }: { entry: Entry }) {
  const changes = changesBetween(entry.before, entry.after);
  return (
    <>
      <Facts facts={factsOf(entry)} />
      <ObjectLink entry={entry} />
      <Section title={text.entry.changes}>
        {changes.length === 0 && <p className="secondary">{text.entry.noChanges}</p>}
        {changes.length > 0 && (
          <Table label={text.entry.changes} columns={COLUMNS} rows={changes} keyOf={(change) => change.field} />
        )}
      </Section>
      <Section title={text.entry.request}>
        <p className="mono">
          {entry.http_method} <MarkedText text={entry.http_path} />
        </p>
        {Object.keys(entry.body).length === 0 && <p className="secondary">{text.entry.noRequest}</p>}
        {Object.keys(entry.body).length > 0 && <Json value={entry.body} />}
        <p className="secondary">{text.entry.sealed}</p>
      </Section>
      <Section title={text.entry.requestId}>
        <Copy label={text.entry.requestId} text={entry.request_id} />
        <p className="secondary">{text.entry.sameRequest}</p>
      </Section>
    </>
  );
}

function factsOf(entry: Entry): [string, ReactNode][] {
  return [
    [text.outcome, <Outcome key="outcome" entry={entry} />],
    [text.time, <Time key="time" at={entry.created_at} isExact />],
    [text.actor, <MarkedText key="actor" text={actorOf(entry)} />],
    [text.action, <MarkedText key="action" text={entry.action} />],
    [text.type, <code key="type">{entry.resource_type}</code>],
    [
      text.object,
      <code key="object">
        <MarkedText text={entry.resource} />
      </code>,
    ],
    [
      text.ip,
      <code key="ip">
        <MarkedText text={entry.client_ip} />
      </code>,
    ],
    [text.entry.id, <code key="id">{entry.id}</code>],
  ];
}

function ObjectLink({ entry }: { entry: Entry }) {
  const screen = screenOf(entry, Object.keys(useRouter().routesByPath));
  if (screen === null) return null;
  return (
    <p>
      <Link to={screen}>{text.entry.openObject}</Link>
    </p>
  );
}

function Side({ kind, value }: { kind: "before" | "after"; value: unknown }) {
  return (
    <div className={styles[kind]}>
      <Json value={value} />
    </div>
  );
}

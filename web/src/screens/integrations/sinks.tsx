import { Link } from "@tanstack/react-router";
import { useUser } from "../../api/account";
import { api, unwrap } from "../../api/client";
import { usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { counted } from "../../messages";
import { Copy } from "../../parts/copy";
import { LinkButton } from "../../parts/link-button";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { IntegrationsPage } from "./integrations-page";
import { text } from "./messages";
import { SinkStatus } from "./sink-status";

type Sink = components["schemas"]["SinkAnswer"];

const OFTEN = 10_000; // milliseconds between two requests: deliveries fail and recover at any time

const COLUMNS: Column<Sink>[] = [
  {
    title: text.sinks.name,
    cell: ({ name }) => (
      <Link to="/integrations/sinks/$name" params={{ name }} className="mono">
        <MarkedText text={name} />
      </Link>
    ),
  },
  { title: text.sinks.kind, cell: ({ kind }) => text.kinds[kind] },
  {
    title: text.sinks.address,
    cell: ({ address }) => (
      <span className="mono">
        <MarkedText text={address} />
      </span>
    ),
  },
  { title: text.sinks.events, cell: ({ events }) => counted(text.sinks.eventCount, events.length) },
  { title: text.sinks.status, cell: (sink) => <SinkStatus sink={sink} /> },
  {
    title: text.sinks.delivered,
    cell: ({ delivered_at }) => (delivered_at ? <Time at={delivered_at} /> : text.sinks.never),
  },
];

/** Where events of the organisation go, and whether they arrive. */
export function SinksScreen() {
  const isAdmin = useUser()?.role === "admin";
  const read = (place: object) => unwrap(api.GET("/api/sinks", { params: { query: place } }));
  const pages = usePages(["/api/sinks", "list"], read, { every: OFTEN });
  return (
    <IntegrationsPage
      path="/integrations"
      aside={
        isAdmin && (
          <LinkButton kind="primary" to="/integrations/sinks/new">
            {text.sinks.new}
          </LinkButton>
        )
      }
    >
      <p className="secondary">{text.sinks.about}</p>
      <List
        label={text.views.sinks}
        pages={pages}
        columns={COLUMNS}
        keyOf={(sink) => sink.id}
        count={(total) => counted(text.sinks.count, total)}
        none={
          <>
            <p>{text.sinks.none}</p>
            <Copy label={text.sinks.none} text={text.sinks.command} />
          </>
        }
      />
    </IntegrationsPage>
  );
}

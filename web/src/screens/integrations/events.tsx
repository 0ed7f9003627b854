import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { fieldsOf, type SchemaField } from "../../engines/json-schema";
import { Download } from "../../parts/download";
import { Json } from "../../parts/json";
import { Failure } from "../../parts/notice";
import { type Column, Skeleton, Table } from "../../parts/table";

import styles from "./integrations.module.css";
import { IntegrationsPage } from "./integrations-page";
import { text } from "./messages";

const COLUMNS: Column<SchemaField>[] = [
  { title: text.events.field, cell: ({ name }) => <code>{name}</code> },
  {
    title: text.events.type,
    cell: ({ type, isRequired }) => (isRequired ? type : `${type} (${text.events.optional})`),
  },
  { title: text.events.description, cell: ({ description }) => description },
];

/** Each event with the schema of its data, for who writes a receiver. */
export function EventsScreen() {
  const query = useQuery({
    queryKey: ["event schemas"],
    staleTime: Number.POSITIVE_INFINITY, // they change with the gateway's version only
    queryFn: async () =>
      Object.entries((await unwrap(api.GET("/api/events/schemas"))) as Record<string, Record<string, unknown>>),
  });
  const schemas = query.data ?? [];
  return (
    <IntegrationsPage
      path="/integrations/events"
      aside={
        <Download
          label={text.events.download}
          name="event-schemas.json"
          content={() => JSON.stringify(Object.fromEntries(schemas), null, 2)}
          isDisabled={schemas.length === 0}
        />
      }
    >
      <p className="secondary">{text.events.about}</p>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      <div>
        {schemas.map(([event, schema]) => (
          <EventSchema key={event} event={event} schema={schema} />
        ))}
      </div>
    </IntegrationsPage>
  );
}

function EventSchema({ event, schema }: { event: string; schema: Record<string, unknown> }) {
  const { description } = schema;
  const label = `${event}: ${text.events.data}`;
  return (
    <details className={styles.event}>
      <summary>
        <code>{event}</code> <span className="secondary">{typeof description === "string" && description}</span>
      </summary>
      <Table label={label} columns={COLUMNS} rows={fieldsOf(schema, "data")} keyOf={({ name }) => name} />
      <details>
        <summary>{text.events.whole}</summary>
        <Json value={schema} />
      </details>
    </details>
  );
}

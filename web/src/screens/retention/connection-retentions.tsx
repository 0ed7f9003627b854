import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { Button } from "../../parts/button";
import { Confirm } from "../../parts/confirm";
import { Copy } from "../../parts/copy";
import { Dialog } from "../../parts/dialog";
import { MarkedText } from "../../parts/marked-text";
import { Names } from "../../parts/names";
import { Failure } from "../../parts/notice";
import { Section } from "../../parts/section";
import { type Column, Skeleton, Table } from "../../parts/table";
import { Time } from "../../parts/time";
import { type Days, daysText } from "./days";
import { text } from "./messages";
import { RetentionForm } from "./retention-form";

type Retention = components["schemas"]["RetentionAnswer"];

interface Edited {
  name: string | null;
  start: Days;
}

const NEW: Edited = { name: null, start: { recording_days: null, session_days: null } };

export function ConnectionRetentions({ isReadOnly }: { isReadOnly: boolean }) {
  const [edited, setEdited] = useState<Edited | null>(null);
  const query = useQuery({
    queryKey: ["retention", "connections"],
    queryFn: () => unwrap(api.GET("/api/retention/connections")),
  });
  const rows = query.data?.data ?? [];
  const columns: Column<Retention>[] = [
    {
      title: text.connections.connection,
      cell: ({ connection }) => (
        <span className="mono">
          {connection === null ? text.connections.deleted : <MarkedText text={connection} />}
        </span>
      ),
    },
    { title: text.connections.recordings, cell: ({ recording_days }) => daysText(recording_days) },
    { title: text.connections.sessions, cell: ({ session_days }) => daysText(session_days) },
    {
      title: text.connections.effective,
      cell: ({ effective_at }) => (effective_at ? <Time at={effective_at} isExact /> : text.connections.inForce),
    },
    ...(isReadOnly
      ? []
      : [
          {
            title: text.connections.actions,
            cell: (retention: Retention) => <Actions retention={retention} onEdit={setEdited} />,
          },
        ]),
  ];
  return (
    <Section
      title={text.connections.title}
      actions={!isReadOnly && <Button onPress={() => setEdited(NEW)}>{text.connections.add}</Button>}
    >
      <p className="secondary">{text.connections.about}</p>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton rows={3} />}
      {query.data && rows.length === 0 && (
        <>
          <p>{text.connections.none}</p>
          <Copy label={text.connections.none} text={text.connections.command} />
        </>
      )}
      {rows.length > 0 && (
        <Table
          label={text.connections.title}
          columns={columns}
          rows={rows}
          keyOf={({ connection_id, connection }) => connection_id ?? connection ?? ""}
        />
      )}
      <Dialog
        title={edited?.name ? text.connections.editOf(edited.name) : text.connections.add}
        isOpen={edited !== null}
        onClose={() => setEdited(null)}
      >
        {edited && <EditRetention edited={edited} onSaved={() => setEdited(null)} />}
      </Dialog>
    </Section>
  );
}

function Actions({ retention, onEdit }: { retention: Retention; onEdit: (edited: Edited) => void }) {
  const queries = useQueryClient();
  const name = retention.connection;
  if (name === null) return null;
  return (
    <div className="row">
      <Button onPress={() => onEdit({ name, start: retention })} aria-label={text.connections.editOf(name)}>
        {text.connections.edit}
      </Button>
      <Confirm
        label={text.connections.inherit}
        title={text.connections.inheritTitle(name)}
        action={() =>
          unwrap(api.DELETE("/api/retention/connections/{nameOrID}", { params: { path: { nameOrID: name } } }))
        }
        onDone={() => void queries.invalidateQueries({ queryKey: ["retention"] })}
      >
        {text.connections.inheritText}
      </Confirm>
    </div>
  );
}

function EditRetention({ edited, onSaved }: { edited: Edited; onSaved: () => void }) {
  const [name, setName] = useState(edited.name);
  const connections = useQuery({
    queryKey: ["retention", "names"],
    enabled: edited.name === null,
    queryFn: () => unwrap(api.GET("/api/connections", { params: { query: { limit: 100 } } })),
  });
  return (
    <>
      {edited.name === null && (
        <Names
          label={text.connections.connection}
          value={name === null ? [] : [name]}
          onChange={(names) => setName(names.at(-1) ?? null)}
          options={connections.data?.data.map((connection) => connection.name) ?? []}
          allowsOthers
        />
      )}
      {name === null && <p className="secondary">{text.connections.choose}</p>}
      {name !== null && <RetentionForm key={name} start={edited.start} connection={name} onSaved={onSaved} />}
    </>
  );
}

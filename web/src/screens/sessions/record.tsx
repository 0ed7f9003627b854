import { useMutation, useQuery, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";
import { userQuery } from "../../api/account";
import { api, unwrap } from "../../api/client";
import { usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { Confirm } from "../../parts/confirm";
import { Field } from "../../parts/field";
import { Form } from "../../parts/form";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { text } from "./messages";

type Hold = components["schemas"]["HoldAnswer"];

/** What keeps the recording, what ran because of the session, and its purge; for administrators and auditors. */
export function RecordTab({ id }: { id: string }) {
  const { data: user } = useSuspenseQuery(userQuery);
  return (
    <>
      <Holds id={id} isAdmin={user?.is_admin ?? false} />
      <Hooks id={id} />
      {user?.is_admin && <Purge id={id} />}
    </>
  );
}

function Holds({ id, isAdmin }: { id: string; isAdmin: boolean }) {
  const queries = useQueryClient();
  const key = ["holds", id];
  const path = { session_id: id };
  const pages = usePages(key, () => unwrap(api.GET("/api/sessions/{session_id}/holds", { params: { path } })));
  const release = async (name: string) => {
    const params = { path: { ...path, nameOrID: name } };
    await unwrap(api.DELETE("/api/sessions/{session_id}/holds/{nameOrID}", { params }));
    await queries.invalidateQueries({ queryKey: key });
  };
  const columns: Column<Hold>[] = [
    { title: text.record.holdName, cell: ({ name }) => <MarkedText text={name} /> },
    { title: text.record.holdReason, cell: ({ reason }) => <MarkedText text={reason} /> },
    { title: text.record.by, cell: ({ by_email }) => <MarkedText text={by_email} /> },
    { title: text.record.since, cell: ({ at }) => <Time at={at} /> },
  ];
  if (isAdmin)
    columns.push({
      title: text.record.actions,
      cell: ({ name }) => (
        <Confirm label={text.record.release} title={text.record.releaseTitle(name)} action={() => release(name)}>
          {text.record.releaseText}
        </Confirm>
      ),
    });
  return (
    <section aria-label={text.record.holds} className="stack">
      <h2>{text.record.holds}</h2>
      <p className="secondary">{text.record.holdsHint}</p>
      <List
        label={text.record.holds}
        pages={pages}
        columns={columns}
        keyOf={(hold) => hold.id}
        none={<p>{text.record.noHolds}</p>}
      />
      {isAdmin && <NewHold id={id} onDone={() => void queries.invalidateQueries({ queryKey: key })} />}
    </section>
  );
}

function NewHold({ id, onDone }: { id: string; onDone: () => void }) {
  const [name, setName] = useState("");
  const [reason, setReason] = useState("");
  const hold = useMutation({
    mutationFn: () => {
      const params = { path: { session_id: id } };
      return unwrap(api.POST("/api/sessions/{session_id}/holds", { params, body: { name, reason } }));
    },
    onSuccess: () => {
      setName("");
      setReason("");
      onDone();
    },
  });
  return (
    <Form submit={text.record.hold} onSubmit={() => hold.mutate()} isBusy={hold.isPending} error={hold.error}>
      <Field label={text.record.holdName} value={name} onChange={setName} isRequired />
      <Field label={text.record.holdReason} value={reason} onChange={setReason} isRequired />
    </Form>
  );
}

function Hooks({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ["hooks", id],
    queryFn: () => unwrap(api.GET("/api/sessions/{session_id}/hooks", { params: { path: { session_id: id } } })),
  });
  return (
    <section aria-label={text.record.hooks} className="stack">
      <h2>{text.record.hooks}</h2>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.data?.data.length === 0 && <p className="secondary">{text.record.noHooks}</p>}
      {query.data?.data.map((run) => (
        <article key={run.id} className="stack">
          <h3>
            <MarkedText text={text.record.hookRan(run.kind, run.repository)} />
          </h3>
          <p>
            <Time at={run.started_at} /> · {text.record.exitCode(run.exit_code)} · <MarkedText text={run.reason} />
          </p>
          {run.output && (
            <pre className="words">
              <MarkedText text={run.output} />
            </pre>
          )}
        </article>
      ))}
    </section>
  );
}

function Purge({ id }: { id: string }) {
  const queries = useQueryClient();
  const [reason, setReason] = useState("");
  const purge = () => {
    const params = { path: { session_id: id } };
    return unwrap(api.POST("/api/sessions/{session_id}/purge", { params, body: { reason, what: "recording" } }));
  };
  return (
    <div>
      <Confirm
        label={text.record.purge}
        title={text.record.purgeTitle}
        typed={id}
        action={purge}
        onDone={() => void queries.invalidateQueries({ queryKey: ["session", id] })}
      >
        <p>{text.record.purgeText}</p>
        <Field label={text.record.purgeReason} value={reason} onChange={setReason} />
      </Confirm>
    </div>
  );
}

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useUser } from "../../api/account";
import { api, unwrap } from "../../api/client";
import { usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { counted } from "../../messages";
import { Button } from "../../parts/button";
import { Confirm } from "../../parts/confirm";
import { Copy } from "../../parts/copy";
import { Dialog } from "../../parts/dialog";
import { Field } from "../../parts/field";
import { Form } from "../../parts/form";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { text } from "./messages";
import { RetentionPage } from "./retention-page";

type Hold = components["schemas"]["HoldAnswer"];

const COLUMNS: Column<Hold>[] = [
  { title: text.holds.name, cell: ({ name }) => <MarkedText text={name} /> },
  { title: text.holds.reason, cell: ({ reason }) => <MarkedText text={reason} /> },
  {
    title: text.holds.session,
    cell: ({ session_id }) => (
      <Link to="/sessions/$id" params={{ id: session_id }} className="mono">
        {session_id}
      </Link>
    ),
  },
  { title: text.holds.by, cell: ({ by_email }) => <MarkedText text={by_email} /> },
  { title: text.holds.at, cell: ({ at }) => <Time at={at} isExact /> },
];

/** All legal holds: which sessions nothing can purge, and why. */
export function HoldsScreen() {
  const isAdmin = useUser()?.role === "admin";
  const [isAdding, setAdding] = useState(false);
  const pages = usePages(["holds"], (place) => unwrap(api.GET("/api/holds", { params: { query: place } })));
  const actions = { title: text.holds.actions, cell: (hold: Hold) => <RemoveHold hold={hold} /> };
  return (
    <RetentionPage
      path="/retention/holds"
      aside={
        isAdmin && (
          <Button kind="primary" onPress={() => setAdding(true)}>
            {text.holds.add}
          </Button>
        )
      }
    >
      <p className="secondary">{text.holds.about}</p>
      <List
        label={text.views.holds}
        pages={pages}
        columns={isAdmin ? [...COLUMNS, actions] : COLUMNS}
        keyOf={(hold) => hold.id}
        count={(total) => counted(text.holds.count, total)}
        none={
          <>
            <p>{text.holds.none}</p>
            <Copy label={text.holds.none} text={text.holds.command} />
          </>
        }
      />
      <Dialog title={text.holds.add} isOpen={isAdding} onClose={() => setAdding(false)}>
        <AddHold onAdded={() => setAdding(false)} />
      </Dialog>
    </RetentionPage>
  );
}

function AddHold({ onAdded }: { onAdded: () => void }) {
  const [session, setSession] = useState("");
  const [name, setName] = useState("");
  const [reason, setReason] = useState("");
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: () => {
      const params = { path: { session_id: session.trim() } };
      return unwrap(api.POST("/api/sessions/{session_id}/holds", { params, body: { name, reason } }));
    },
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["holds"] });
      onAdded();
    },
  });
  return (
    <Form submit={text.holds.add} onSubmit={() => add.mutate()} isBusy={add.isPending} error={add.error}>
      <Field
        label={text.holds.sessionId}
        hint={text.holds.sessionHint}
        value={session}
        onChange={setSession}
        isRequired
      />
      <Field label={text.holds.name} hint={text.holds.nameHint} value={name} onChange={setName} isRequired />
      <Field label={text.holds.reason} value={reason} onChange={setReason} isRequired />
    </Form>
  );
}

function RemoveHold({ hold }: { hold: Hold }) {
  const queries = useQueryClient();
  const remove = () => {
    const params = { path: { session_id: hold.session_id, nameOrID: hold.id } };
    return unwrap(api.DELETE("/api/sessions/{session_id}/holds/{nameOrID}", { params }));
  };
  return (
    <Confirm
      label={text.holds.remove}
      title={text.holds.removeOf(hold.name)}
      action={remove}
      onDone={() => void queries.invalidateQueries({ queryKey: ["holds"] })}
    >
      {text.holds.removeText}
    </Confirm>
  );
}

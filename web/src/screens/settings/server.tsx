import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { endAllLogins } from "../../api/account";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { LISTENERS } from "../../engines/listeners";
import { Toggle } from "../../parts/choice";
import { Confirm } from "../../parts/confirm";
import { Copy } from "../../parts/copy";
import { Field } from "../../parts/field";
import { Fields, Form } from "../../parts/form";
import { Failure, Notice } from "../../parts/notice";
import { Section } from "../../parts/section";
import { Skeleton } from "../../parts/table";
import { text } from "./messages";
import { SettingsPage } from "./settings-page";

type Server = components["schemas"]["MiscConfigAnswer"];
type Listener = components["schemas"]["ListenerConfigAnswer"];

/** Addresses and listeners of the server, and the keys of login tokens: for those who run it. */
export function ServerScreen() {
  const query = useQuery({
    queryKey: ["server settings"],
    staleTime: Number.POSITIVE_INFINITY, // a newer version would take away what is being typed
    gcTime: 0,
    queryFn: () => unwrap(api.GET("/api/serverconfig/misc")),
  });
  return (
    <SettingsPage path="/settings/server">
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      {query.data && (
        <>
          <p className="secondary">{text.server.about}</p>
          <ServerForm server={query.data} />
          <TokenKeys />
        </>
      )}
    </SettingsPage>
  );
}

function ServerForm({ server }: { server: Server }) {
  const [draft, setDraft] = useState(server);
  const queries = useQueryClient();
  const set = (part: Partial<Server>) => setDraft((before) => ({ ...before, ...part }));
  const save = useMutation({
    mutationFn: () => unwrap(api.PUT("/api/serverconfig/misc", { body: changesOf(server, draft) })),
    onSuccess: (saved) => {
      setDraft(saved);
      queries.setQueryData(["server settings"], saved);
    },
  });
  return (
    <Form
      submit={text.server.save}
      onSubmit={() => save.mutate()}
      isBusy={save.isPending}
      error={save.error}
      isSaved={save.isSuccess}
    >
      <Field label={text.server.apiUrl} value={draft.api_url} onChange={(api_url) => set({ api_url })} isRequired />
      <Field
        label={text.server.publicHost}
        hint={text.server.publicHostHint}
        value={draft.public_host}
        onChange={(public_host) => set({ public_host })}
      />
      {LISTENERS.map((name) => (
        <ListenerFields
          key={name}
          title={text.listeners[name]}
          listener={draft[`${name}_server_config`]}
          onChange={(listener) => set({ [`${name}_server_config`]: listener })}
        />
      ))}
      <div className="stack">
        <span>{text.server.fingerprint}</span>
        <Copy label={text.server.fingerprint} text={server.ssh_host_key_fingerprint} />
      </div>
    </Form>
  );
}

/** Return what was changed only: what is left out stays as the environment sets it. */
function changesOf(before: Server, after: Server): Partial<Server> {
  return Object.fromEntries(
    Object.entries(after).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name as keyof Server]),
    ),
  );
}

interface ListenerProps {
  title: string;
  listener: Listener;
  onChange: (listener: Listener) => void;
}

function ListenerFields({ title, listener, onChange }: ListenerProps) {
  return (
    <Fields title={title}>
      <Toggle
        label={text.server.enabled}
        isOn={listener.enabled}
        onChange={(enabled) => onChange({ ...listener, enabled })}
      />
      <Field
        label={text.server.listen}
        hint={text.server.listenHint}
        value={listener.listen_address}
        onChange={(listen_address) => onChange({ ...listener, listen_address })}
      />
    </Fields>
  );
}

function TokenKeys() {
  const rotate = useMutation({
    mutationFn: () => unwrap(api.POST("/api/serverconfig/token-keys/rotate", { body: { revoke: false } })),
  });
  return (
    <Section title={text.server.keys}>
      <p className="secondary">{text.server.keysAbout}</p>
      {rotate.isSuccess && (
        <Notice kind="ok">
          <p>{text.server.rotated}</p>
        </Notice>
      )}
      <div className="row">
        <Confirm label={text.server.rotate} title={text.server.rotateTitle} action={() => rotate.mutateAsync()}>
          {text.server.rotateText}
        </Confirm>
        <Confirm
          label={text.server.revoke}
          title={text.server.revokeTitle}
          typed={text.server.revokeWord}
          action={endAllLogins}
          onDone={() => window.location.reload()}
        >
          {text.server.revokeText}
        </Confirm>
      </div>
    </Section>
  );
}

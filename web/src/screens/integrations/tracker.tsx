import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useUser } from "../../api/account";
import { api, unwrap } from "../../api/client";
import { ApiError } from "../../api/errors";
import type { components } from "../../api/schema";
import { Choice, Toggle } from "../../parts/choice";
import { Confirm } from "../../parts/confirm";
import { Copy } from "../../parts/copy";
import { Field, LongField } from "../../parts/field";
import { Form } from "../../parts/form";
import { MarkedText } from "../../parts/marked-text";
import { Failure, Notice } from "../../parts/notice";
import { Section } from "../../parts/section";
import { Skeleton } from "../../parts/table";
import { IntegrationsPage } from "./integrations-page";
import { Issues } from "./issues";
import { text } from "./messages";

type Tracker = components["schemas"]["TrackerAnswer"];
type Draft = components["schemas"]["TrackerRequest"];

const KINDS = Object.entries(text.tracker.kinds) as [Draft["kind"], string][];
const WHEN_DOWN = Object.entries(text.tracker.whenDowns) as [Draft["when_down"], string][];
const BLANK: Draft = {
  ...{ kind: "jira_cloud", url: "", user: "", authority: "", enabled: true, when_down: "refuse" },
};

/** The tracker in which sessions open issues, and the issues that they opened. */
export function TrackerScreen() {
  const isAdmin = useUser()?.role === "admin";
  const query = useQuery({ queryKey: ["tracker"], queryFn: readTracker });
  const tracker = query.data;
  return (
    <IntegrationsPage path="/integrations/tracker">
      <p className="secondary">{text.tracker.about}</p>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      {tracker === null && (
        <>
          <p>{text.tracker.none}</p>
          <Copy label={text.tracker.none} text={text.tracker.command} />
        </>
      )}
      {tracker !== undefined && (tracker !== null || isAdmin) && (
        <TrackerForm key={tracker?.updated_at ?? ""} tracker={tracker} isReadOnly={!isAdmin} />
      )}
      {tracker && isAdmin && <Test />}
      {tracker && <Issues isAdmin={isAdmin} />}
    </IntegrationsPage>
  );
}

async function readTracker(): Promise<Tracker | null> {
  try {
    return await unwrap(api.GET("/api/integrations/tracker"));
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

function TrackerForm({ tracker, isReadOnly }: { tracker: Tracker | null; isReadOnly: boolean }) {
  const [draft, setDraft] = useState<Draft>(tracker ?? BLANK);
  const [token, setToken] = useState("");
  const queries = useQueryClient();
  const refresh = () => queries.invalidateQueries({ queryKey: ["tracker"] });
  const set = (part: Partial<Draft>) => setDraft((before) => ({ ...before, ...part }));
  const save = useMutation({
    mutationFn: () => {
      const { kind, url, user, authority, enabled, when_down } = draft;
      const body = { kind, url, user, authority, enabled, when_down, ...(token && { token }) };
      return unwrap(
        tracker ? api.PUT("/api/integrations/tracker", { body }) : api.POST("/api/integrations/tracker", { body }),
      );
    },
    onSuccess: () => {
      setToken("");
      return refresh();
    },
  });
  return (
    <>
      <Form
        submit={tracker ? text.tracker.save : text.tracker.create}
        onSubmit={() => save.mutate()}
        isBusy={save.isPending || isReadOnly}
        error={save.error}
        isSaved={save.isSuccess}
      >
        <Choice
          label={text.tracker.kind}
          value={draft.kind}
          options={KINDS}
          onChange={(kind) => set({ kind })}
          isDisabled={isReadOnly}
        />
        <Field
          label={text.tracker.url}
          value={draft.url}
          onChange={(url) => set({ url })}
          isRequired
          isDisabled={isReadOnly}
        />
        <Field
          label={text.tracker.user}
          hint={text.tracker.userHint}
          value={draft.user}
          onChange={(user) => set({ user })}
          isDisabled={isReadOnly}
        />
        <Field
          label={text.tracker.token}
          type="password"
          autoComplete="off"
          hint={tracker ? text.tracker.tokenStored : undefined}
          value={token}
          onChange={setToken}
          isRequired={tracker === null}
          isDisabled={isReadOnly}
        />
        <LongField
          label={text.tracker.authority}
          hint={text.tracker.authorityHint}
          rows={2}
          isCode
          value={draft.authority}
          onChange={(authority) => set({ authority })}
          isDisabled={isReadOnly}
        />
        <Choice
          label={text.tracker.whenDown}
          value={draft.when_down}
          options={WHEN_DOWN}
          onChange={(when_down) => set({ when_down })}
          isDisabled={isReadOnly}
        />
        <Toggle
          label={text.tracker.enabled}
          isOn={draft.enabled}
          onChange={(enabled) => set({ enabled })}
          isDisabled={isReadOnly}
        />
      </Form>
      {tracker && !isReadOnly && (
        <div>
          <Confirm
            label={text.tracker.delete}
            title={text.tracker.deleteTitle}
            action={() => unwrap(api.DELETE("/api/integrations/tracker"))}
            onDone={() => void refresh()}
          >
            {text.tracker.deleteText}
          </Confirm>
        </div>
      )}
    </>
  );
}

function Test() {
  const [project, setProject] = useState("");
  const test = useMutation({
    mutationFn: () => unwrap(api.POST("/api/integrations/tracker/test", { body: { project_key: project.trim() } })),
  });
  return (
    <Section title={text.tracker.test}>
      <Form submit={text.tracker.test} onSubmit={() => test.mutate()} isBusy={test.isPending} error={test.error}>
        <Field label={text.tracker.project} hint={text.tracker.projectHint} value={project} onChange={setProject} />
      </Form>
      {test.data && (
        <Notice kind="ok">
          <p>
            <MarkedText text={test.data.answer} />
          </p>
        </Notice>
      )}
    </Section>
  );
}

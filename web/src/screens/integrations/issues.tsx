import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Button } from "../../parts/button";
import { Chip } from "../../parts/chip";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Failure, Notice } from "../../parts/notice";
import { Section } from "../../parts/section";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { Views } from "../../parts/views";
import { ISSUE_STATES } from "./kinds";
import { text } from "./messages";

type Issue = components["schemas"]["SessionIssueAnswer"];

const OFTEN = 10_000; // milliseconds between two requests: attempts go on by themselves
const KINDS = {
  ...({ wanted: "held", withdrawn: "off", made: "ok", closing: "held", closed: "off", given_up: "refused" } as const),
};

const COLUMNS: Column<Issue>[] = [
  { title: text.tracker.issue, cell: (issue) => <IssueLink issue={issue} /> },
  {
    title: text.tracker.session,
    cell: ({ session_id }) => (
      <Link to="/sessions/$id" params={{ id: session_id }} className="mono">
        {session_id}
      </Link>
    ),
  },
  {
    title: text.tracker.state,
    cell: ({ state }) => <Chip kind={KINDS[state]}>{text.tracker.issueStates[state]}</Chip>,
  },
  { title: text.tracker.attempts, cell: ({ attempts }) => attempts },
  { title: text.tracker.error, cell: ({ last_error }) => <MarkedText text={last_error} /> },
  { title: text.tracker.created, cell: ({ created_at }) => created_at && <Time at={created_at} isExact /> },
];

/** Issues that sessions have opened, and those that could not be opened. */
export function Issues({ isAdmin }: { isAdmin: boolean }) {
  const { state } = useSearch({ from: "/shell/integrations/tracker" });
  const pages = usePages(
    ["issues", state],
    (place) => {
      const query = { ...place, ...(state && { state }) };
      return unwrap(api.GET("/api/integrations/tracker/issues", { params: { query } }));
    },
    { limit: 50, every: OFTEN },
  );
  const actions = { title: text.tracker.actions, cell: (issue: Issue) => <Retry issue={issue} /> };
  return (
    <Section title={text.tracker.issues} actions={isAdmin && <RetryAll />}>
      <Views label={text.tracker.state}>
        {([undefined, ...ISSUE_STATES] as const).map((name) => (
          <Link
            key={name ?? "all"}
            to="/integrations/tracker"
            search={name ? { state: name } : {}}
            activeOptions={{ exact: true }}
            aria-current={state === name ? "page" : undefined}
          >
            {name ? text.tracker.issueStates[name] : text.tracker.all}
          </Link>
        ))}
      </Views>
      <List
        label={text.tracker.issues}
        pages={pages}
        columns={isAdmin ? [...COLUMNS, actions] : COLUMNS}
        keyOf={({ session_id }) => session_id}
        none={<p>{state ? common.nothingFits : text.tracker.issuesNone}</p>}
      />
    </Section>
  );
}

function IssueLink({ issue: { key, url } }: { issue: Issue }) {
  if (key === null) return null;
  const words = <MarkedText text={key} />;
  if (!url || !/^https?:\/\//.test(url)) return words;
  return (
    <a href={url} target="_blank" rel="noopener noreferrer">
      {words}
    </a>
  );
}

function Retry({ issue: { session_id, state } }: { issue: Issue }) {
  const queries = useQueryClient();
  const retry = useMutation({
    mutationFn: () => {
      const params = { path: { session_id } };
      return unwrap(api.POST("/api/integrations/tracker/issues/{session_id}/retry", { params }));
    },
    onSuccess: () => queries.invalidateQueries({ queryKey: ["issues"] }),
  });
  if (state !== "given_up") return null;
  return (
    <>
      <Button onPress={() => retry.mutate()} isDisabled={retry.isPending} aria-label={text.tracker.retryOf(session_id)}>
        {text.tracker.retry}
      </Button>
      {retry.error && <Failure error={retry.error} />}
    </>
  );
}

function RetryAll() {
  const queries = useQueryClient();
  const [count, setCount] = useState<number | null>(null);
  const retry = useMutation({
    mutationFn: () => unwrap(api.POST("/api/integrations/tracker/issues/retry")),
    onSuccess: ({ waiting }) => {
      setCount(waiting);
      return queries.invalidateQueries({ queryKey: ["issues"] });
    },
  });
  return (
    <div className="row">
      {count !== null && (
        <Notice kind="ok">
          <p>{counted(text.tracker.retried, count)}</p>
        </Notice>
      )}
      {retry.error && <Failure error={retry.error} />}
      <Button onPress={() => retry.mutate()} isDisabled={retry.isPending}>
        {text.tracker.retryAll}
      </Button>
    </div>
  );
}

import { useMutation, useQuery, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { type ReactNode, useEffect } from "react";
import { userQuery } from "../../api/account";
import { api, unwrap } from "../../api/client";
import { readAhead } from "../../api/recordings";
import type { components } from "../../api/schema";
import { isTerminal } from "../../api/scripts";
import { common } from "../../messages/common";
import { Button } from "../../parts/button";
import { Facts } from "../../parts/facts";
import { type LaterCode, LoadedLater } from "../../parts/loaded-later";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import { Page } from "../../parts/page";
import { Skeleton } from "../../parts/table";
import { Time } from "../../parts/time";
import { Views } from "../../parts/views";
import { FilesTab } from "./files";
import { text } from "./messages";
import { ProofTab } from "./proof";
import { RecordTab } from "./record";
import { ResultsTab } from "./results";
import { SessionState } from "./session-state";
import type { Tab } from "./tabs";
import { Timeline } from "./timeline";

type Session = Pick<
  components["schemas"]["SessionAnswer"],
  | "id"
  | "connection"
  | "user"
  | "user_name"
  | "verb"
  | "status"
  | "outcome"
  | "start_date"
  | "end_date"
  | "exit_code"
  | "review"
  | "recording_purged_at"
  | "type"
  | "connection_subtype"
>;

const OFTEN = 3_000; // milliseconds between two requests at a session that is open
// The terminal is much code, which the statements do not need.
const REPLAY: LaterCode<{ id: string }> = { load: async () => (await import("./replay")).ReplayTab };
const WATCH: LaterCode<{ id: string }> = { load: async () => (await import("./watch")).WatchTab };

/** Who did what, when and with which result, as the recording has it. */
export function SessionScreen() {
  const { id } = useParams({ from: "/shell/sessions/$id" });
  const query = useQuery({
    queryKey: ["session", id],
    refetchInterval: ({ state }) => (state.data?.status === "open" ? OFTEN : false),
    queryFn: (): Promise<Session> =>
      unwrap(api.GET("/api/sessions/{session_id}", { params: { path: { session_id: id } } })) as Promise<Session>,
  });
  const session = query.data;
  return (
    <Page title={text.session.title} aside={<Link to="/sessions">{text.session.back}</Link>}>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      {session && (
        <>
          <Facts facts={factsOf(session)} />
          {session.status === "open" && <Kill id={id} />}
          <Tabs session={session} />
        </>
      )}
    </Page>
  );
}

function Tabs({ session }: { session: Session }) {
  const { data: user } = useSuspenseQuery(userQuery);
  const tabs = tabsOf(session, user?.role === "admin" || user?.role === "auditor");
  const { tab = tabs[0] ?? "statements" } = useSearch({ from: "/shell/sessions/$id" });
  return (
    <>
      <Views label={text.session.tabs}>
        {tabs.map((other) => (
          <Link
            key={other}
            to="/sessions/$id"
            params={{ id: session.id }}
            search={{ tab: other }}
            aria-current={other === tab ? "page" : undefined}
          >
            {text.session.tab[other]}
          </Link>
        ))}
      </Views>
      <TabOf tab={tab} session={session} />
    </>
  );
}

/** A terminal is replayed, or watched while it is open; a database session has statements and results. */
function tabsOf({ verb, status, connection_subtype }: Session, readsAll: boolean): Tab[] {
  const hasTerminal = isTerminal(connection_subtype);
  const first: Tab[] = !hasTerminal ? [] : status === "open" ? ["watch"] : ["replay"];
  const results: Tab[] = !hasTerminal && verb === "exec" && status === "done" ? ["results"] : [];
  return [...first, "statements", ...results, "files", "proof", ...(readsAll ? (["record"] as const) : [])];
}

function TabOf({ tab, session }: { tab: Tab; session: Session }) {
  const { id, status, connection_subtype } = session;
  switch (tab) {
    case "replay":
      return <Replay id={id} />;
    case "watch":
      return <LoadedLater code={WATCH} props={{ id }} />;
    case "statements":
      return <Timeline id={id} isOpen={status === "open"} />;
    case "results":
      return <ResultsTab id={id} />;
    case "files":
      return <FilesTab id={id} subtype={connection_subtype} />;
    case "proof":
      return <ProofTab id={id} />;
    case "record":
      return <RecordTab id={id} />;
  }
}

function Replay({ id }: { id: string }) {
  useEffect(() => readAhead(id), [id]);
  return <LoadedLater code={REPLAY} props={{ id }} />;
}

function factsOf(session: Session): [string, ReactNode][] {
  const facts: [string, ReactNode][] = [
    [text.list.status, <SessionState key="state" session={session} />],
    [text.list.user, <MarkedText key="user" text={session.user_name || session.user} />],
    [
      text.list.connection,
      <code key="connection">
        <MarkedText text={session.connection} />
      </code>,
    ],
    [text.list.verb, common.verbs[session.verb]],
    [text.list.started, <Time key="start" at={session.start_date} />],
  ];
  if (session.end_date) facts.push([text.session.ended, <Time key="end" at={session.end_date} />]);
  if (session.exit_code) facts.push([text.session.exitCode, session.exit_code]);
  if (session.review)
    facts.push([
      common.review,
      <Link key="review" to="/reviews/$id" params={{ id: session.review.id }}>
        {common.reviewStatuses[session.review.status]}
      </Link>,
    ]);
  if (session.recording_purged_at)
    facts.push([text.session.purged, <Time key="purged" at={session.recording_purged_at} />]);
  facts.push([text.session.id, <code key="id">{session.id}</code>]);
  return facts;
}

function Kill({ id }: { id: string }) {
  const queries = useQueryClient();
  const kill = useMutation({
    mutationFn: () => unwrap(api.POST("/api/sessions/{session_id}/kill", { params: { path: { session_id: id } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["session", id] }),
  });
  return (
    <div>
      <Button onPress={() => kill.mutate()} isDisabled={kill.isPending}>
        {text.session.kill}
      </Button>
      {kill.error && <Failure error={kill.error} />}
    </div>
  );
}

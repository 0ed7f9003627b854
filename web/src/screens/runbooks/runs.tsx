import { Link } from "@tanstack/react-router";
import { useUser } from "../../api/account";
import { api, unwrap } from "../../api/client";
import { type Place, usePages } from "../../api/pages";
import type { components } from "../../api/schema";
import { Chip } from "../../parts/chip";
import { List } from "../../parts/list";
import { MarkedText } from "../../parts/marked-text";
import { Section } from "../../parts/section";
import type { Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { text } from "./messages";

type Session = Pick<
  components["schemas"]["FoundAnswer"],
  "id" | "connection" | "user" | "user_name" | "status" | "outcome" | "start_date" | "review"
>;

const SHOWN = 10; // runs of one page
const OFTEN = 10_000; // milliseconds between two requests: runs begin and end at any time
export const RUNS_KEY = "runs of runbooks";

interface Props {
  /** The runbook that ran, to whose page a run that waits leads. */
  repository: string;
  file: string;
  /** Only runs of this schedule. */
  schedule?: string;
}

/** Sessions that ran a runbook, newest first: the user's own, or all for administrators and auditors. */
export function Runs({ repository, file, schedule }: Props) {
  const { email, role } = useUser();
  const label =
    schedule === undefined
      ? [`runbookRepository:${repository}`, `runbookFile:${file.replace(/^\//, "")}`]
      : [`runbookSchedule:${schedule}`];
  const read = (place: Place) => unwrap(api.GET("/api/sessions", { params: { query: { ...place, label } } }));
  const pages = usePages([RUNS_KEY, ...label], read, { limit: SHOWN, every: OFTEN });
  const columns: Column<Session>[] = [
    STARTED,
    ...(role === "standard" ? [] : [USER]),
    CONNECTION,
    {
      title: text.runs.result,
      cell: (session) =>
        isWaiting(session) && session.user === email ? (
          <Link to="/runbooks/run" search={{ repository, file, connection: session.connection, session: session.id }}>
            {text.runs.follow}
          </Link>
        ) : (
          <Outcome session={session} />
        ),
    },
  ];
  return (
    <Section title={text.runs.title}>
      <List
        label={text.runs.title}
        pages={pages}
        columns={columns}
        keyOf={({ id }) => id}
        none={<p className="secondary">{text.runs.none}</p>}
      />
    </Section>
  );
}

const STARTED: Column<Session> = {
  title: text.runs.started,
  cell: ({ id, start_date }) => (
    <Link to="/sessions/$id" params={{ id }}>
      <Time at={start_date} />
    </Link>
  ),
};

const USER: Column<Session> = {
  title: text.runs.user,
  cell: ({ user, user_name }) => <MarkedText text={user_name || user} />,
};

const CONNECTION: Column<Session> = {
  title: text.runs.connection,
  cell: ({ connection }) => (
    <span className="mono">
      <MarkedText text={connection} />
    </span>
  ),
};

function Outcome({ session }: { session: Session }) {
  const { status, outcome } = session;
  if (isWaiting(session)) return <Chip kind="held">{text.runs.waiting}</Chip>;
  if (status !== "done" || !outcome) return <Chip kind="info">{text.runs.states[status]}</Chip>;
  return <Chip kind={outcome === "succeeded" ? "ok" : "refused"}>{text.runs.outcomes[outcome]}</Chip>;
}

/** Whether it waits for a review, or for its user after one. */
function isWaiting({ status, review }: Session): boolean {
  return status !== "done" && (review?.status === "PENDING" || review?.status === "APPROVED");
}

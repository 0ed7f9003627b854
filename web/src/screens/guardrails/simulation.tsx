import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useConnections } from "../../api/lists";
import type { Action } from "../../engines/guardrail-rules";
import { Button } from "../../parts/button";
import { Chip } from "../../parts/chip";
import { Choice } from "../../parts/choice";
import { MarkedText } from "../../parts/marked-text";
import { Names } from "../../parts/names";
import { Failure } from "../../parts/notice";
import { type Column, Table } from "../../parts/table";
import { type Draft, type Guardrail, requestOf, trialOf } from "./guardrail-data";
import { text } from "./messages";
import { KINDS } from "./trial";
import { type Simulation, type SimulationRun, useSimulation } from "./use-simulation";

type Days = "1" | "7" | "30" | "90";
type UserHits = NonNullable<Simulation["users"]>[number];
type Sample = NonNullable<Simulation["samples"]>[number];

const PERIODS = Object.entries(text.simulation.days) as [Days, string][];
const DAY = 86_400_000; // milliseconds

/** What the rules in the form would have done in recorded sessions, also compared with the saved rules. */
export function SimulationPanel({ draft, saved }: { draft: Draft; saved: Guardrail | null }) {
  const [days, setDays] = useState<Days>("7");
  const [names, setNames] = useState<string[]>([]);
  const connections = useConnections().map(({ name }) => name);
  const { run, start, stop } = useSimulation();
  const hasRules = draft.input.length + draft.output.length > 0;
  const begin = (isCompared: boolean) => {
    const chosen = names.length > 0 ? names : draft.connection_ids;
    const body = {
      start_date: new Date(Date.now() - Number(days) * DAY).toISOString(),
      max_sessions: 1_000,
      connections: chosen.length > 0 ? chosen : null,
      guardrail: trialOf(draft),
    };
    start(body, isCompared && saved ? saved.id : null);
  };
  return (
    <>
      <p className="secondary">{text.simulation.about}</p>
      <Choice label={text.simulation.period} value={days} options={PERIODS} onChange={setDays} />
      <Names
        label={text.simulation.connections}
        hint={text.simulation.connectionsHint}
        options={connections}
        value={names}
        onChange={setNames}
      />
      <div className="row">
        <Button kind="primary" onPress={() => begin(false)} isDisabled={!hasRules || run.isRunning}>
          {text.simulation.start}
        </Button>
        {saved && isChanged(draft, saved) && (
          <Button onPress={() => begin(true)} isDisabled={!hasRules || run.isRunning}>
            {text.simulation.compare}
          </Button>
        )}
        {run.isRunning && <Button onPress={stop}>{text.simulation.stop}</Button>}
      </div>
      {run.error && <Failure error={run.error} />}
      <Progress run={run} />
      {run.draft?.event === "result" && <Result draft={run.draft} saved={run.saved} />}
    </>
  );
}

/** Whether the rules in the form differ from the saved ones, in what they do. */
function isChanged(draft: Draft, saved: Guardrail): boolean {
  const { input, output } = requestOf(draft);
  const plain = (rules: object[]) => JSON.stringify(rules.map(withoutEmpty));
  return (
    plain(input?.rules ?? []) !== plain(saved.input.rules) || plain(output?.rules ?? []) !== plain(saved.output.rules)
  );
}

const USUAL: Record<string, unknown> = { action: "deny", whole_words: true, case_sensitive: false };

/** Return a rule without what is as usual, with its fields in one order. */
function withoutEmpty(rule: object): object {
  const told = Object.entries(rule).filter(([name, value]) => {
    const isEmpty = value === null || value === "" || value === 0 || (Array.isArray(value) && value.length === 0);
    return !isEmpty && USUAL[name] !== value;
  });
  return Object.fromEntries(told.sort(([one], [other]) => one.localeCompare(other)));
}

function Progress({ run }: { run: SimulationRun }) {
  if (!run.isRunning) return null;
  const step = run.saved ?? run.draft;
  return (
    <p role="status">
      {run.saved && `${text.simulation.progressOfSaved} `}
      {text.simulation.progress(step?.sessions_read ?? 0, step?.statements_read ?? 0)}
    </p>
  );
}

function Result({ draft, saved }: { draft: Simulation; saved: Simulation | null }) {
  const { users, samples, caveats, skipped, stopped } = draft;
  return (
    <>
      <p>{text.simulation.read(draft.sessions_read, draft.statements_read, draft.answers_read)}</p>
      {stopped && <p>{text.simulation.stopped(stopped)}</p>}
      {draft.sessions_hit === 0 && !saved?.sessions_hit ? (
        <p role="status">{text.simulation.nothing}</p>
      ) : (
        <Measures draft={draft} saved={saved?.event === "result" ? saved : null} />
      )}
      {users && users.length > 0 && (
        <>
          <h2>{text.simulation.users}</h2>
          <Table
            label={text.simulation.users}
            columns={USER_COLUMNS}
            rows={users}
            keyOf={({ connection, user }) => `${connection}\n${user}`}
          />
        </>
      )}
      {samples && samples.length > 0 && (
        <>
          <h2>{text.simulation.samples}</h2>
          <Table
            label={text.simulation.samples}
            columns={SAMPLE_COLUMNS}
            rows={samples}
            keyOf={(sample) => String(samples.indexOf(sample))}
          />
        </>
      )}
      <Lines
        title={text.simulation.skipped}
        lines={Object.entries(skipped).map(([reason, count]) => text.simulation.skippedOf(count, reason))}
      />
      <Lines title={text.simulation.caveats} lines={caveats ?? []} />
    </>
  );
}

interface Measure {
  title: string;
  draft: number;
  saved: number;
}

function Measures({ draft, saved }: { draft: Simulation; saved: Simulation | null }) {
  const columns: Column<Measure>[] = [
    { title: text.simulation.measure, cell: ({ title }) => <MarkedText text={title} /> },
    { title: text.simulation.draft, cell: (row) => text.simulation.count(row.draft) },
  ];
  if (saved)
    columns.push(
      { title: text.simulation.saved, cell: (row) => text.simulation.count(row.saved) },
      { title: text.simulation.difference, cell: (row) => text.simulation.change(row.draft - row.saved) },
    );
  return (
    <>
      <h2>{text.simulation.summary}</h2>
      <Table
        label={text.simulation.summary}
        columns={columns}
        rows={measuresOf(draft, saved)}
        keyOf={({ title }) => title}
      />
    </>
  );
}

function measuresOf(draft: Simulation, saved: Simulation | null): Measure[] {
  const names = (part: "actions" | "rules") =>
    [...new Set([...Object.keys(draft[part]), ...Object.keys(saved?.[part] ?? {})])].sort();
  const counts = (part: "actions" | "rules", name: string) => ({
    draft: draft[part][name] ?? 0,
    saved: saved?.[part][name] ?? 0,
  });
  return [
    { title: text.simulation.sessionsHit, draft: draft.sessions_hit, saved: saved?.sessions_hit ?? 0 },
    ...names("actions").map((name) => ({
      title: text.simulation.actions[name as Action],
      ...counts("actions", name),
    })),
    { title: text.simulation.unknown, draft: draft.unknown, saved: saved?.unknown ?? 0 },
    ...names("rules").map((name) => ({ title: text.simulation.byRule(name), ...counts("rules", name) })),
  ];
}

const USER_COLUMNS: Column<UserHits>[] = [
  {
    title: text.simulation.connection,
    cell: ({ connection }) => (
      <span className="mono">
        <MarkedText text={connection} />
      </span>
    ),
  },
  { title: text.simulation.user, cell: ({ user }) => <MarkedText text={user} /> },
  { title: text.simulation.matches, cell: ({ statements }) => text.simulation.count(statements) },
  {
    title: text.simulation.sessions,
    cell: ({ sessions, session_ids }) => (
      <span className="row">
        {text.simulation.count(sessions)}
        {session_ids.map((id, index) => (
          <Link key={id} to="/sessions/$id" params={{ id }} target="_blank">
            {text.simulation.sessionLink(index + 1)}
          </Link>
        ))}
      </span>
    ),
  },
];

const SAMPLE_COLUMNS: Column<Sample>[] = [
  {
    title: text.simulation.statement,
    cell: ({ statement, direction, values, session_id, time }) => (
      <div className="stack">
        <span className="mono words">
          {direction === "output" && `${text.simulation.outputOf} `}
          <MarkedText text={statement} />
        </span>
        {values.length > 0 && (
          <span className="secondary words">
            <MarkedText text={text.simulation.values(JSON.stringify(values))} />
          </span>
        )}
        <Link to="/sessions/$id" params={{ id: session_id }} search={momentOf(time)} target="_blank">
          {text.simulation.session}
        </Link>
      </div>
    ),
  },
  {
    title: text.simulation.rule,
    cell: ({ action, rule, reason }) => (
      <div className="stack">
        <span>
          <Chip kind={KINDS[action]}>{text.rules.actions[action]}</Chip>
        </span>
        <MarkedText text={reason ? `${rule}: ${reason}` : rule} />
      </div>
    ),
  },
  {
    title: text.simulation.user,
    cell: ({ connection, user }) => (
      <>
        <MarkedText text={user} /> · <MarkedText text={connection} />
      </>
    ),
  },
];

/** Return the part of a session's address that leads to this millisecond of its replay. */
function momentOf(milliseconds: number): { t?: number } {
  const seconds = Math.floor(milliseconds / 1_000);
  return seconds > 0 ? { t: seconds } : {};
}

function Lines({ title, lines }: { title: string; lines: string[] }) {
  if (lines.length === 0) return null;
  return (
    <section aria-label={title} className="stack">
      <h2>{title}</h2>
      <ul className="secondary">
        {lines.map((line) => (
          <li key={line}>
            <MarkedText text={line} />
          </li>
        ))}
      </ul>
    </section>
  );
}

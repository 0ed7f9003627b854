import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { type Action, cut, type Side } from "../../engines/guardrail-rules";
import { Chip } from "../../parts/chip";
import { Choice } from "../../parts/choice";
import { LongField } from "../../parts/field";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import { type Column, Table } from "../../parts/table";
import { useSettled } from "../../parts/use-settled";
import { type Draft, trialOf } from "./guardrail-data";
import { text } from "./messages";
import styles from "./rules.module.css";

type Answer = components["schemas"]["TrialAnswer"];
type Hit = Omit<Answer["hits"][number], "spans"> & { spans: number[][] };
type Trial = Omit<Answer, "hits"> & { hits: Hit[] };
type Statement = Trial["statements"][number];
type Dialect = keyof typeof text.trial.dialects;

const PAUSE = 350; // milliseconds without a key after which the text is tried
const DIALECTS = Object.entries(text.trial.dialects) as [Dialect, string][];
const SIDES = Object.entries(text.trial.directions) as [Side, string][];
export const KINDS = { deny: "refused", review: "held", mask: "masked", warn: "held" } as const;

/** What the rules in the form make of a text, while it is typed and while the rules are changed. */
export function TrialPanel({ draft }: { draft: Draft }) {
  const [words, setWords] = useState("");
  const [side, setSide] = useState<Side>("input");
  const [dialect, setDialect] = useState<Dialect>("postgres");
  const hasRules = draft.input.length + draft.output.length > 0;
  return (
    <>
      <LongField
        label={side === "input" ? text.trial.statement : text.trial.output}
        hint={(side === "input" && text.trial.hintsOf[dialect]) || text.trial.hint}
        value={words}
        onChange={setWords}
        rows={5}
        isCode
      />
      <div className={styles.pair}>
        <Choice label={text.trial.direction} value={side} options={SIDES} onChange={setSide} />
        {side === "input" && (
          <Choice label={text.trial.dialect} value={dialect} options={DIALECTS} onChange={setDialect} />
        )}
      </div>
      {hasRules ? (
        <Result draft={draft} words={words} side={side} dialect={dialect} />
      ) : (
        <p className="secondary">{text.trial.noRules}</p>
      )}
    </>
  );
}

interface ResultProps {
  draft: Draft;
  words: string;
  side: Side;
  dialect: Dialect;
}

function Result({ draft, words, side, dialect }: ResultProps) {
  const body = useSettled(
    { text: words, direction: side, dialect: dialect === "text" ? "" : dialect, guardrail: trialOf(draft) },
    PAUSE,
  );
  const trial = useQuery({
    queryKey: ["guardrail trial", body],
    enabled: body.text.trim() !== "",
    placeholderData: keepPreviousData,
    gcTime: 0,
    retry: false,
    queryFn: () => unwrap(api.POST("/api/guardrails/test", { body })),
  });
  if (words.trim() === "") return <p className="secondary">{text.trial.waiting}</p>;
  if (trial.error) return <Failure error={trial.error} />;
  if (!trial.data) return null;
  return <TrialResult trial={trial.data} words={body.text} />;
}

function TrialResult({ trial, words }: { trial: Trial; words: string }) {
  const action = trial.outcome as Action | "allow";
  const hitColumns: Column<Hit>[] = [
    ...HIT_COLUMNS,
    { title: text.trial.reason, cell: (hit) => <MarkedText text={reasonOf(hit, words)} /> },
  ];
  return (
    <>
      <div role="status" className="stack">
        <div>
          {action === "allow" ? (
            <Chip kind="ok">{text.trial.allow}</Chip>
          ) : (
            <Chip kind={KINDS[action]}>{text.trial.outcomes[action]}</Chip>
          )}
        </div>
        {trial.message ? (
          <div>
            <p className="secondary">{text.trial.told}</p>
            <p className="mono words">
              <MarkedText text={trial.message} />
            </p>
          </div>
        ) : (
          trial.hits.length === 0 && <p>{text.trial.passes}</p>
        )}
      </div>
      {trial.hits.length > 0 && (
        <>
          <h2>{text.trial.hits}</h2>
          <Table
            label={text.trial.hits}
            columns={hitColumns}
            rows={trial.hits}
            keyOf={(hit) => `${hit.rule} ${hit.action} ${hit.reason}`}
          />
        </>
      )}
      {trial.statements.length > 0 && (
        <>
          <h2>{text.trial.read}</h2>
          <Table
            label={text.trial.read}
            columns={STATEMENT_COLUMNS}
            rows={trial.statements}
            keyOf={(statement) => String(trial.statements.indexOf(statement))}
          />
        </>
      )}
    </>
  );
}

const HIT_COLUMNS: Column<Hit>[] = [
  { title: text.trial.rule, cell: ({ rule }) => <MarkedText text={rule} /> },
  {
    title: text.trial.action,
    cell: ({ action }) => <Chip kind={KINDS[action]}>{text.rules.actions[action]}</Chip>,
  },
];

const STATEMENT_COLUMNS: Column<Statement>[] = [
  { title: text.trial.tag, cell: ({ tag }) => <code>{tag || "?"}</code> },
  {
    title: text.trial.effects,
    cell: ({ effects, without_where, reason }) => (
      <span className="row">
        {effects.map((effect) => (
          <Chip key={effect} kind="info">
            {effect}
          </Chip>
        ))}
        {without_where && <Chip kind="held">{text.trial.withoutCondition}</Chip>}
        {reason && <MarkedText text={reason} />}
      </span>
    ),
  },
  {
    title: text.trial.objects,
    cell: ({ objects }) => (
      <span className="mono">
        <MarkedText text={objects.join(", ")} />
      </span>
    ),
  },
];

function reasonOf(hit: Hit, words: string): string {
  const matched = cut(words, hit.spans).filter(Boolean);
  const reasons = [hit.reason, matched.length > 0 && text.trial.matched(matched), hit.unknown && text.trial.unsure];
  return reasons.filter(Boolean).join(" · ");
}

import { memo, type RefObject, startTransition, useCallback, useEffect, useRef, useState } from "react";
import { startScript, stopScript } from "../../api/scripts";
import type { Names } from "../../engines/sql/completion";
import type { Draft } from "../../engines/sql/drafts";
import { countStatements, placeholdersOf } from "../../engines/sql/scan";
import { Button } from "../../parts/button";
import { Field } from "../../parts/field";
import { Fields } from "../../parts/form";
import { Notice } from "../../parts/notice";
import { useRun } from "../../parts/use-run";
import type { DraftKeeper } from "./draft-keeper";
import { type EditorHandle, type Piece, SqlEditor } from "./editor";
import { History } from "./history";
import type { ShownMark } from "./marks";
import { text } from "./messages";
import { Outcome } from "./outcome";
import { PreviewBar } from "./preview";
import { Problems } from "./problems";
import styles from "./sql.module.css";
import { canFormat, useFormat } from "./use-format";

export interface Connection {
  name: string;
  subtype: string;
  reviewers: string[];
}

interface Props {
  connection: Connection;
  names: Names | null;
  /** Its draft as it is when the tab is shown first. */
  initial: Draft;
  keeper: DraftKeeper;
  handle: RefObject<EditorHandle | null>;
  /** Whether this tab is the one that is looked at. */
  isSelected: boolean;
  isFocused: boolean;
}

/** One script with its own run. It goes on while another tab is looked at, and is followed again after a reload. */
export const ScriptTab = memo(function ScriptTab({ connection, names, initial, keeper, handle, ...shown }: Props) {
  const [draft, change] = useDraft(initial, keeper);
  const [selected, setSelected] = useState<Piece | null>(null);
  const [marks, setMarks] = useState<ShownMark[]>([]);
  const { script, reason, values } = draft;
  const run = useDraftRun(draft, change);
  const dialect = connection.subtype;
  const { format, problem } = useFormat(handle, dialect);
  const toRun: Piece = selected ?? { text: script, from: 0 };
  const start = (piece: Piece) => {
    if (!piece.text.trim() || run.isBusy) return;
    handle.current?.noteRun(piece);
    const sent = {
      connection: connection.name,
      script: piece.text,
      reason,
      ...parametersOf(piece.text, values, dialect),
    };
    const begun = {
      from: piece.from,
      to: piece.from + piece.text.length,
      statements: countStatements(piece.text, dialect),
    };
    run.start(sent, (session) => change({ run: { session, ...begun, isOver: false } }));
  };
  const error = run.state?.error;
  useEffect(() => {
    if (error) handle.current?.markError(error);
  }, [error, handle]);
  return (
    <div className={styles.work}>
      <div className={styles.editor}>
        <SqlEditor
          label={text.editor}
          initial={initial.script}
          initialRan={initial.run}
          isFocused={shown.isFocused}
          dialect={dialect}
          names={names}
          handle={handle}
          onChange={(typed, ran) =>
            change(({ run }) => ({ script: typed, ...(run && ran && { run: { ...run, ...ran } }) }))
          }
          onSelect={setSelected}
          onRun={start}
          onMarks={setMarks}
          onFormat={format}
        />
      </div>
      <Problems marks={marks} onGo={(mark) => handle.current?.goTo(mark)} />
      {problem && <Notice kind="held">{text.formatProblems[problem]}</Notice>}
      <PreviewBar
        connection={connection.name}
        script={toRun.text}
        parameters={parametersOf(toRun.text, values, dialect).parameters}
        isShown={shown.isSelected}
        onJudged={(judged) => handle.current?.markJudged(judged)}
      />
      <Parameters script={toRun.text} dialect={dialect} values={values} onChange={(next) => change({ values: next })} />
      <div className={styles.bar}>
        <Button
          kind="primary"
          onPress={() => start(handle.current?.piece() ?? toRun)}
          isDisabled={run.isBusy || !toRun.text.trim()}
        >
          {selected ? text.runSelection : text.run}
        </Button>
        <kbd>{text.shortcut}</kbd>
        {run.phase === "running" && (
          <Button onPress={() => void stopScript(run.state?.session_id ?? "")}>{text.stop}</Button>
        )}
        {canFormat(dialect) && (
          <Button onPress={format} isDisabled={!script.trim()} aria-keyshortcuts="Shift+Alt+F">
            {text.format}
          </Button>
        )}
        <History connection={connection.name} onChoose={(past) => handle.current?.replace(past)} />
        <Field
          label={text.reason}
          value={reason}
          onChange={(next) => change({ reason: next })}
          maxLength={1000}
          hint={connection.reviewers.length > 0 ? text.needsReview(connection.reviewers) : undefined}
        />
      </div>
      <Outcome run={run} statements={draft.run?.statements ?? 0} />
    </div>
  );
});

type Change = (part: Partial<Draft> | ((draft: Draft) => Partial<Draft>)) => void;

const SHOW_EVERY = 100; // milliseconds in which keys in the editor are shown beside it together

/**
 * The draft of a tab. Each change goes to the keeper at once. What is beside the editor shows the script a little
 * later, so that a key does not wait for it; other fields show what is typed in them at once.
 */
function useDraft(initial: Draft, keeper: DraftKeeper): [Draft, Change] {
  const [shown, setShown] = useState(initial);
  const current = useRef(initial);
  const timer = useRef(0);
  const change = useCallback(
    (next: Parameters<Change>[0]) => {
      const part = typeof next === "function" ? next(current.current) : next;
      current.current = { ...current.current, ...part };
      keeper.change(initial.id, part);
      const show = () => {
        clearTimeout(timer.current);
        timer.current = 0;
        setShown(current.current);
      };
      if (part.script === undefined) show();
      else if (timer.current === 0) timer.current = window.setTimeout(() => startTransition(show), SHOW_EVERY);
    },
    [keeper, initial.id],
  );
  useEffect(
    () => () => {
      clearTimeout(timer.current);
      timer.current = 0;
    },
    [],
  );
  return [shown, change];
}

/** The run of a draft. What ran when the page was left is followed again. */
function useDraftRun({ run: noted }: Draft, change: Change) {
  const run = useRun(startScript, true);
  const { phase, resume } = run;
  const session = noted?.session;
  useEffect(() => {
    if (session) resume(session);
  }, [session, resume]);
  const isOver = phase === "ended" || phase === "refused";
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is noted once, when the phase changes
  useEffect(() => {
    if (noted && isOver && noted.session === run.state?.session_id)
      change((latest) => ({ run: latest.run && { ...latest.run, isOver } }));
  }, [isOver]);
  return run;
}

interface ParametersProps {
  script: string;
  dialect: string;
  values: Readonly<Record<string, string>>;
  onChange: (values: Record<string, string>) => void;
}

/** A field for each placeholder `:name`; the script gets values only once one of them is filled in. */
function Parameters({ script, dialect, values, onChange }: ParametersProps) {
  const names = placeholdersOf(script, dialect);
  if (names.length === 0) return null;
  return (
    <Fields title={text.parameters}>
      <p className="secondary">{text.parametersHint}</p>
      <div className="row">
        {names.map((name) => (
          <Field
            key={name}
            label={`:${name}`}
            value={values[name] ?? ""}
            onChange={(value) => onChange({ ...values, [name]: value })}
          />
        ))}
      </div>
    </Fields>
  );
}

/** Return the values of the placeholders, if there are any: without them a colon means nothing. */
function parametersOf(
  script: string,
  values: Readonly<Record<string, string>>,
  dialect: string,
): { parameters?: Record<string, string> } {
  const names = placeholdersOf(script, dialect);
  if (!names.some((name) => values[name])) return {};
  return { parameters: Object.fromEntries(names.map((name) => [name, values[name] ?? ""])) };
}

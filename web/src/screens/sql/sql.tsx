import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useCallback, useMemo, useRef, useState } from "react";
import { api, unwrap } from "../../api/client";
import { schemaQuery, startScript, stopScript } from "../../api/scripts";
import { Names } from "../../engines/sql/completion";
import { countStatements, placeholdersOf } from "../../engines/sql/scan";
import { Button } from "../../parts/button";
import { Field } from "../../parts/field";
import { Fields } from "../../parts/form";
import { Failure } from "../../parts/notice";
import { Page } from "../../parts/page";
import { useRun } from "../../parts/use-run";
import { type EditorHandle, SqlEditor } from "./editor";
import { History } from "./history";
import { text } from "./messages";
import { Outcome } from "./outcome";
import { PreviewBar } from "./preview";
import { SchemaTree } from "./schema-tree";
import styles from "./sql.module.css";

/** Write a script for one connection, run it, and read its results, also if it needs approval first. */
export function SqlScreen() {
  const { connection } = useParams({ from: "/shell/sql/$connection" });
  const query = useQuery({
    queryKey: ["connection", connection],
    queryFn: () => unwrap(api.GET("/api/connections/{nameOrID}", { params: { path: { nameOrID: connection } } })),
  });
  return (
    <Page title={text.title(connection)} aside={<Link to="/connections">{text.allConnections}</Link>}>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.data && <Workbench key={connection} {...query.data} />}
    </Page>
  );
}

interface Connection {
  name: string;
  subtype: string;
  reviewers: string[];
  access_schema: "enabled" | "disabled";
}

function Workbench({ name, subtype, reviewers, access_schema }: Connection) {
  const [script, setScript] = useState("");
  const [selected, setSelected] = useState("");
  const [reason, setReason] = useState("");
  const [values, setValues] = useState<Record<string, string>>({});
  const handle = useRef<EditorHandle>(null);
  const insert = useCallback((identifier: string) => handle.current?.insert(identifier), []);
  const schema = useQuery({ ...schemaQuery(name), enabled: access_schema === "enabled" });
  const names = useMemo(() => (schema.data ? namesOf(schema.data) : null), [schema.data]);
  const [statements, setStatements] = useState(0); // of the script that runs
  const run = useRun(startScript, true);
  const toRun = selected.trim() ? selected : script;
  const { isBusy } = run;
  const start = (text: string) => {
    if (!text.trim() || isBusy) return;
    setStatements(countStatements(text));
    run.start({ connection: name, script: text, reason, ...parametersOf(text, values) });
  };
  return (
    <div className={schema.data ? styles.workbench : undefined}>
      {schema.data && <SchemaTree schema={schema.data} dialect={subtype} onInsert={insert} />}
      <div className={styles.work}>
        <div className={styles.editor}>
          <SqlEditor
            label={text.editor}
            initial=""
            dialect={subtype}
            names={names}
            handle={handle}
            onChange={setScript}
            onSelect={setSelected}
            onRun={start}
          />
        </div>
        <PreviewBar connection={name} script={toRun} parameters={parametersOf(toRun, values).parameters} />
        <Parameters script={toRun} values={values} onChange={setValues} />
        <div className={styles.bar}>
          <Button kind="primary" onPress={() => start(toRun)} isDisabled={isBusy || !toRun.trim()}>
            {selected.trim() ? text.runSelection : text.run}
          </Button>
          <kbd>{text.shortcut}</kbd>
          {run.phase === "running" && (
            <Button onPress={() => void stopScript(run.state?.session_id ?? "")}>{text.stop}</Button>
          )}
          <History connection={name} onChoose={(past) => handle.current?.replace(past)} />
          <Field
            label={text.reason}
            value={reason}
            onChange={setReason}
            maxLength={1000}
            hint={reviewers.length > 0 ? text.needsReview(reviewers) : undefined}
          />
        </div>
        {schema.error && <p className="secondary">{text.noSchema(schema.error.message)}</p>}
        <Outcome run={run} statements={statements} />
      </div>
    </div>
  );
}

interface ParametersProps {
  script: string;
  values: Record<string, string>;
  onChange: (values: Record<string, string>) => void;
}

/** A field for each placeholder `:name`; the script gets values only once one of them is filled in. */
function Parameters({ script, values, onChange }: ParametersProps) {
  const names = placeholdersOf(script);
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
function parametersOf(script: string, values: Record<string, string>): { parameters?: Record<string, string> } {
  const names = placeholdersOf(script);
  if (!names.some((name) => values[name])) return {};
  return { parameters: Object.fromEntries(names.map((name) => [name, values[name] ?? ""])) };
}

function namesOf({ schemas }: { schemas: { name: string; tables: { name: string; columns: Column[] }[] }[] }): Names {
  return new Names(schemas.flatMap(({ name, tables }) => tables.map((table) => ({ ...table, schema: name }))));
}

interface Column {
  name: string;
  type: string;
}

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../../api/client";
import { useConnections } from "../../api/lists";
import { Button } from "../../parts/button";
import { Choice, Toggle } from "../../parts/choice";
import { Dialog } from "../../parts/dialog";
import { Failure } from "../../parts/notice";
import { Skeleton } from "../../parts/table";
import styles from "./masking.module.css";
import { text } from "./messages";

const NONE = "";

/** A dialog that reads the tables of a connection, and adds columns of one with their whole names. */
export function ColumnPicker({ onPick }: { onPick: (columns: string[]) => void }) {
  const [isOpen, setOpen] = useState(false);
  const pick = (columns: string[]) => {
    onPick(columns);
    setOpen(false);
  };
  return (
    <div>
      <Button onPress={() => setOpen(true)}>{text.editor.pick}</Button>
      <Dialog title={text.editor.pickTitle} isOpen={isOpen} onClose={() => setOpen(false)}>
        <Picker onPick={pick} />
      </Dialog>
    </div>
  );
}

function Picker({ onPick }: { onPick: (columns: string[]) => void }) {
  const names = useConnections()
    .filter(({ type }) => type === "database")
    .map(({ name }) => name);
  const [connection, setConnection] = useState(NONE);
  const [table, setTable] = useState(NONE);
  const [chosen, setChosen] = useState<string[]>([]);
  const choose = (name: string) => {
    setConnection(name);
    setTable(NONE);
    setChosen([]);
  };
  if (names.length === 0) return <p>{text.editor.noConnections}</p>;
  return (
    <>
      <Choice
        label={text.editor.connection}
        value={connection}
        options={[[NONE, text.editor.choose], ...names.map((name) => [name, name] as const)]}
        onChange={choose}
      />
      {connection !== NONE && (
        <TableChoice
          key={connection}
          connection={connection}
          table={table}
          onChange={(name) => {
            setTable(name);
            setChosen([]);
          }}
        />
      )}
      {table !== NONE && <ColumnChoice connection={connection} table={table} chosen={chosen} onChange={setChosen} />}
      <Button
        kind="primary"
        isDisabled={chosen.length === 0}
        onPress={() => onPick(chosen.map((column) => `${table}.${column}`))}
      >
        {text.editor.addColumns}
      </Button>
    </>
  );
}

interface TableProps {
  connection: string;
  /** Its schema and its name. */
  table: string;
  onChange: (table: string) => void;
}

function TableChoice({ connection, table, onChange }: TableProps) {
  const tables = useQuery({
    queryKey: ["tables", connection],
    retry: false,
    queryFn: () =>
      unwrap(api.GET("/api/connections/{nameOrID}/tables", { params: { path: { nameOrID: connection } } })),
  });
  if (tables.error) return <Failure error={tables.error} onRetry={() => void tables.refetch()} />;
  if (!tables.data) return <Skeleton rows={1} />;
  const names = tables.data.schemas.flatMap((schema) => schema.tables.map((name) => `${schema.name}.${name}`));
  return (
    <>
      <Choice
        label={text.editor.table}
        value={table}
        options={[[NONE, text.editor.choose], ...names.map((name) => [name, name] as const)]}
        onChange={onChange}
      />
      {tables.data.truncated && <p className="secondary">{text.editor.truncated}</p>}
    </>
  );
}

interface ColumnProps extends Omit<TableProps, "onChange"> {
  chosen: string[];
  onChange: (columns: string[]) => void;
}

function ColumnChoice({ connection, table, chosen, onChange }: ColumnProps) {
  const [schema = "", ...rest] = table.split(".");
  const columns = useQuery({
    queryKey: ["columns", connection, table],
    retry: false,
    queryFn: () => {
      const params = { path: { nameOrID: connection }, query: { schema, table: rest.join(".") } };
      return unwrap(api.GET("/api/connections/{nameOrID}/columns", { params }));
    },
  });
  if (columns.error) return <Failure error={columns.error} onRetry={() => void columns.refetch()} />;
  if (!columns.data) return <Skeleton rows={3} />;
  return (
    <div className={styles.columns}>
      {columns.data.columns.map(({ name, type }) => (
        <Toggle
          key={name}
          label={text.editor.column(name, type)}
          isOn={chosen.includes(name)}
          onChange={(isOn) => onChange(isOn ? [...chosen, name] : chosen.filter((other) => other !== name))}
        />
      ))}
    </div>
  );
}

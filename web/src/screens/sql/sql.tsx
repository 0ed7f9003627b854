import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { createRef, type RefObject, useCallback, useMemo, useRef } from "react";
import { useUser } from "../../api/account";
import { api, unwrap } from "../../api/client";
import { schemaQuery } from "../../api/scripts";
import { Names } from "../../engines/sql/completion";
import { Failure } from "../../parts/notice";
import { Page } from "../../parts/page";
import type { DraftKeeper } from "./draft-keeper";
import type { EditorHandle } from "./editor";
import { text } from "./messages";
import { SchemaTree } from "./schema-tree";
import { ScriptTabs } from "./script-tabs";
import styles from "./sql.module.css";
import { useDraftKeeper } from "./use-drafts";

/** Write scripts for one connection, run them, and read their results, also if they need approval first. */
export function SqlScreen() {
  const { connection } = useParams({ from: "/shell/sql/$connection" });
  const query = useQuery({
    queryKey: ["connection", connection],
    queryFn: () => unwrap(api.GET("/api/connections/{nameOrID}", { params: { path: { nameOrID: connection } } })),
  });
  return (
    <Page title={text.title(connection)} aside={<Link to="/connections">{text.allConnections}</Link>}>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.data && <Opened key={query.data.id} connection={query.data} />}
    </Page>
  );
}

interface Connection {
  id: string;
  name: string;
  subtype: string;
  reviewers: string[];
  access_schema: "enabled" | "disabled";
}

/** The drafts belong to the connection, whatever its name is. */
function Opened({ connection }: { connection: Connection }) {
  const keeper = useDraftKeeper(useUser().id, connection.id);
  return keeper && <Workbench connection={connection} keeper={keeper} />;
}

function Workbench({ connection, keeper }: { connection: Connection; keeper: DraftKeeper }) {
  const { name, subtype, access_schema } = connection;
  const [handleOf, insert] = useHandles();
  const schema = useQuery({ ...schemaQuery(name), enabled: access_schema === "enabled" });
  const names = useMemo(() => (schema.data ? namesOf(schema.data) : null), [schema.data]);
  return (
    <div className={schema.data ? styles.workbench : undefined}>
      {schema.data && <SchemaTree schema={schema.data} dialect={subtype} onInsert={insert} />}
      <div className={styles.work}>
        {schema.error && <p className="secondary">{text.noSchema(schema.error.message)}</p>}
        <ScriptTabs connection={connection} names={names} keeper={keeper} handleOf={handleOf} />
      </div>
    </div>
  );
}

export type HandleOf = (id: string, isSelected: boolean) => RefObject<EditorHandle | null>;

/** The editors by their tabs, and what inserts a name into that of the selected tab: both stay the same functions. */
function useHandles(): [HandleOf, (name: string) => void] {
  const handles = useRef(new Map<string, RefObject<EditorHandle | null>>());
  const selected = useRef<RefObject<EditorHandle | null>>(null);
  const handleOf = useCallback((id: string, isSelected: boolean) => {
    const handle = handles.current.get(id) ?? createRef<EditorHandle>();
    handles.current.set(id, handle);
    if (isSelected) selected.current = handle;
    return handle;
  }, []);
  const insert = useCallback((name: string) => selected.current?.current?.insert(name), []);
  return [handleOf, insert];
}

function namesOf({ schemas }: { schemas: { name: string; tables: { name: string; columns: Column[] }[] }[] }): Names {
  return new Names(schemas.flatMap(({ name, tables }) => tables.map((table) => ({ ...table, schema: name }))));
}

interface Column {
  name: string;
  type: string;
}

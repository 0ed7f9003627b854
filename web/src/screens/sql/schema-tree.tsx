import { memo, useState } from "react";
import type { Schema } from "../../api/scripts";
import { quoteName } from "../../engines/sql/completion";
import { counted } from "../../messages";
import { Button } from "../../parts/button";
import { MarkedText } from "../../parts/marked-text";
import { Search } from "../../parts/search";
import { text } from "./messages";
import styles from "./sql.module.css";

const MOST = 200; // tables that are listed at once; a search finds the others

interface Props {
  schema: Schema;
  dialect: string;
  onInsert: (name: string) => void;
}

/**
 * The tables of the database with their columns. Their names go to the cursor in the editor. It is large, so it is drawn
 * only for a new schema or search, and not for each key in the editor: `onInsert` must stay the same function.
 */
export const SchemaTree = memo(function SchemaTree({ schema, dialect, onInsert }: Props) {
  const [search, setSearch] = useState("");
  const words = search.toLowerCase();
  const tables = schema.schemas
    .flatMap(({ name, tables }) => tables.map((table) => ({ ...table, schema: name })))
    .filter(({ name, columns }) => `${name} ${columns.map((column) => column.name)}`.toLowerCase().includes(words));
  const insert = (name: string) => onInsert(quoteName(name, dialect));
  return (
    <section className={styles.tree} aria-label={text.tables}>
      <Search label={text.findTable} value={search} onSearch={setSearch} />
      <ul>
        {tables.slice(0, MOST).map((table) => (
          <li key={`${table.schema}.${table.name}`}>
            <TableEntry table={table} onInsert={insert} />
          </li>
        ))}
      </ul>
      {tables.length > MOST && <p className="secondary">{counted(text.moreTables, tables.length - MOST)}</p>}
      {tables.length === 0 && <p className="secondary">{text.noTables}</p>}
      {schema.truncated && <p className="secondary">{text.schemaCut}</p>}
    </section>
  );
});

type Table = Schema["schemas"][number]["tables"][number] & { schema: string };

/** A table; its columns exist once it is opened. */
function TableEntry({ table, onInsert }: { table: Table; onInsert: (name: string) => void }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <MarkedText text={table.name} /> <span className="secondary">{table.schema}</span>
      </summary>
      {isOpen && (
        <>
          <Button kind="quiet" onPress={() => onInsert(table.name)}>
            {text.insert}
          </Button>
          <ul className={styles.columns}>
            {table.columns.map((column) => (
              <li key={column.name}>
                <Button kind="quiet" onPress={() => onInsert(column.name)}>
                  <MarkedText text={column.name} />
                </Button>
                <span className="secondary">
                  {column.type}
                  {column.nullable ? "" : ` ${text.notNull}`}
                </span>
              </li>
            ))}
          </ul>
        </>
      )}
    </details>
  );
}

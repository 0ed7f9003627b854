import { useState } from "react";
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

/** The tables of the database with their columns. Their names go to the cursor in the editor. */
export function SchemaTree({ schema, dialect, onInsert }: Props) {
  const [search, setSearch] = useState("");
  const words = search.toLowerCase();
  const tables = schema.schemas
    .flatMap(({ name, tables }) => tables.map((table) => ({ ...table, schema: name })))
    .filter(({ name, columns }) => `${name} ${columns.map((column) => column.name)}`.toLowerCase().includes(words));
  return (
    <section className={styles.tree} aria-label={text.tables}>
      <Search label={text.findTable} value={search} onSearch={setSearch} />
      <ul>
        {tables.slice(0, MOST).map((table) => (
          <li key={`${table.schema}.${table.name}`}>
            <details>
              <summary>
                <MarkedText text={table.name} /> <span className="secondary">{table.schema}</span>
              </summary>
              <Button kind="quiet" onPress={() => onInsert(quoteName(table.name, dialect))}>
                {text.insert}
              </Button>
              <ul className={styles.columns}>
                {table.columns.map((column) => (
                  <li key={column.name}>
                    <Button kind="quiet" onPress={() => onInsert(quoteName(column.name, dialect))}>
                      <MarkedText text={column.name} />
                    </Button>
                    <span className="secondary">
                      {column.type}
                      {column.nullable ? "" : ` ${text.notNull}`}
                    </span>
                  </li>
                ))}
              </ul>
            </details>
          </li>
        ))}
      </ul>
      {tables.length > MOST && <p className="secondary">{counted(text.moreTables, tables.length - MOST)}</p>}
      {tables.length === 0 && <p className="secondary">{text.noTables}</p>}
      {schema.truncated && <p className="secondary">{text.schemaCut}</p>}
    </section>
  );
}

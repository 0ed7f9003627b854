// What to offer at the cursor of a SQL text, from the names of the database: columns of the statement's tables first.

import { hasCommands } from "./commands";
import { type SqlDialect, sqlDialectOf } from "./dialects";
import { codeOf, statementAt } from "./scan";
import { quoteShell } from "./shell";

export interface Table {
  schema: string;
  name: string;
  columns: readonly { name: string; type: string }[];
}

export interface Suggestion {
  label: string;
  /** The type of a column, or the schema of a table. */
  detail: string;
  kind: "column" | "table" | "method";
}

/** All tables by their names in lower case; several schemas can have one of the same name. */
export class Names {
  private readonly byName = new Map<string, Table[]>();

  constructor(readonly tables: readonly Table[]) {
    for (const table of tables) {
      const key = table.name.toLowerCase();
      this.byName.set(key, [...(this.byName.get(key) ?? []), table]);
    }
  }

  find(name: string, schema: string | null): Table[] {
    const tables = this.byName.get(name.toLowerCase()) ?? [];
    return schema === null ? tables : tables.filter((table) => table.schema.toLowerCase() === schema.toLowerCase());
  }
}

const NAME = String.raw`(?:"[^"]+"|${"`"}[^${"`"}]+${"`"}|\[[^\]]+\]|[A-Za-z_#][\w$#]*)`;
// What can follow a table and is not its alias.
const NO_ALIAS =
  "where|on|join|left|right|inner|outer|full|cross|natural|group|order|limit|set|values|union|using|as|returning|having|from|with";
const SOURCE = new RegExp(
  String.raw`\b(?:from|join|update|into|,)\s+(${NAME})(?:\.(${NAME}))?(?:\s+(?:as\s+)?(?!(?:${NO_ALIAS})\b)(${NAME}))?`,
  "gi",
);
const QUALIFIED = /([A-Za-z_#][\w$#]*|"[^"]+"|\[[^\]]+\])\.(\w*)$/;

/** Return what fits at `cursor`. Names that begin with what is typed are chosen by the editor. */
export function suggest(text: string, cursor: number, names: Names, dialect: string): Suggestion[] {
  const { start, end } = statementAt(text, cursor, dialect);
  const statement = text.slice(start, end);
  const sources = sourcesOf(statement, names, dialect);
  const qualified = QUALIFIED.exec(text.slice(start, cursor));
  if (qualified) return qualifiedBy(bare(qualified[1] ?? ""), sources, names);
  const columns = [...sources.values()].flat().flatMap(columnsOf);
  return [...unique(columns), ...names.tables.map(asTable)];
}

/** Return the tables of a statement by the names that its columns can be qualified by. */
function sourcesOf(statement: string, names: Names, dialect: string): Map<string, Table[]> {
  const sources = new Map<string, Table[]>();
  const code = codeOf(statement, dialect)
    .map((piece) => piece.text)
    .join(" ");
  for (const [, first = "", second, alias] of code.matchAll(SOURCE)) {
    const [schema, name] = second === undefined ? [null, bare(first)] : [bare(first), bare(second)];
    const tables = names.find(name, schema);
    if (tables.length === 0) continue;
    sources.set(name.toLowerCase(), tables);
    if (alias !== undefined) sources.set(bare(alias).toLowerCase(), tables);
  }
  return sources;
}

/** Columns behind the name or alias of a table, tables behind the name of a schema. */
function qualifiedBy(qualifier: string, sources: Map<string, Table[]>, names: Names): Suggestion[] {
  const tables = sources.get(qualifier.toLowerCase()) ?? names.find(qualifier, null);
  if (tables.length > 0) return unique(tables.flatMap(columnsOf));
  return names.tables.filter(({ schema }) => schema.toLowerCase() === qualifier.toLowerCase()).map(asTable);
}

function columnsOf({ columns }: Table): Suggestion[] {
  return columns.map(({ name, type }) => ({ label: name, detail: type, kind: "column" }));
}

function asTable({ schema, name }: Table): Suggestion {
  return { label: name, detail: schema, kind: "table" };
}

function unique(suggestions: Suggestion[]): Suggestion[] {
  return [...new Map(suggestions.map((suggestion) => [suggestion.label, suggestion])).values()];
}

function bare(name: string): string {
  return /^["`[]/.test(name) ? name.slice(1, -1) : name;
}

interface Quoting {
  /** Names that mean themselves without quotes. */
  plain: RegExp;
  quote: (name: string) => string;
}

const inQuotes = (name: string) => `"${name.replaceAll('"', '""')}"`;
const QUOTING: Record<SqlDialect, Quoting> = {
  postgres: { plain: /^[a-z_][a-z0-9_]*$/, quote: inQuotes },
  mysql: { plain: /^[a-z_][a-z0-9_]*$/, quote: (name) => `\`${name.replaceAll("`", "``")}\`` },
  mssql: { plain: /^[A-Za-z_][A-Za-z0-9_]*$/, quote: (name) => `[${name.replaceAll("]", "]]")}]` },
  oracledb: { plain: /^[A-Z][A-Z0-9_$#]*$/, quote: inQuotes }, // others are read in capitals
};

/** Return a name as it is written in a statement: in quotes where it must be. */
export function quoteName(name: string, dialect: string): string {
  if (dialect === "mongodb") return quoteShell(name);
  if (hasCommands(dialect)) return name;
  const { plain, quote } = QUOTING[sqlDialectOf(dialect)];
  return plain.test(name) ? name : quote(name);
}

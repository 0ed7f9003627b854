// Scripts for DynamoDB and CloudWatch: command lines, operations in JSON, and PartiQL. Where each of them begins and
// ends, and what to offer at the cursor. Enough for an editor's help, not for rules.

import type { Names, Suggestion } from "./completion";
import type { Span } from "./shell";

const BLANK = /(?:[\s;]|\\\r?\n|#[^\n]*)*/y;
const OPERATION = /(?:[A-Z][A-Za-z0-9]+[ \t]*)?(?=\{)/y;
const PARTIQL = /(?:select|insert|update|delete|exists)\b/iy;
const STATEMENT = /(?:'[^']*(?:'|$)|"[^"]*(?:"|$)|[^;'"])*/y;
const COMMAND = /(?:'[^']*(?:'|$)|"(?:[^"\\]|\\[\s\S])*(?:"|$)|\\[\s\S]|[^\n;'"\\])*/y;
const JSON_PIECE = /"(?:[^"\\]|\\[\s\S])*(?:"|$)|[^"]/y;

const WORDS: Record<string, string> = {
  dynamodb:
    "get-item put-item update-item delete-item query scan batch-get-item batch-write-item execute-statement list-tables describe-table --table-name --index-name --key --item --key-condition-expression --filter-expression --projection-expression --expression-attribute-names --expression-attribute-values --limit",
  cloudwatch:
    "logs cloudwatch filter-log-events get-log-events describe-log-groups describe-log-streams start-query tail list-metrics get-metric-data get-metric-statistics describe-alarms --log-group-name --log-stream-name --filter-pattern --query-string --start-time --end-time --since --namespace --metric-name --limit",
};

/** Whether scripts of this dialect are commands for an AWS service. */
export function hasCommands(dialect: string): boolean {
  return dialect in WORDS;
}

/** Return the statements of a script. */
export function commandStatements(text: string, dialect: string): Span[] {
  const statements: Span[] = [];
  for (let at = end(BLANK, text, 0); at < text.length; ) {
    const to = Math.max(statementEnd(text, at, dialect), at + 1);
    statements.push({ start: at, end: at + text.slice(at, to).trimEnd().length });
    at = end(BLANK, text, to);
  }
  return statements;
}

function statementEnd(text: string, at: number, dialect: string): number {
  if (matches(OPERATION, text, at)) return jsonEnd(text, end(OPERATION, text, at));
  if (dialect === "dynamodb" && matches(PARTIQL, text, at)) return end(STATEMENT, text, at);
  return end(COMMAND, text, at);
}

function jsonEnd(text: string, at: number): number {
  let depth = 0;
  for (let place = at; place < text.length; ) {
    const next = end(JSON_PIECE, text, place);
    const sign = text[place] ?? "";
    if ("{[".includes(sign)) depth += 1;
    else if ("]}".includes(sign)) depth -= 1;
    place = Math.max(next, place + 1);
    if (depth === 0) return place;
  }
  return text.length;
}

function matches(pattern: RegExp, text: string, at: number): boolean {
  pattern.lastIndex = at;
  return pattern.test(text);
}

function end(pattern: RegExp, text: string, at: number): number {
  return matches(pattern, text, at) ? pattern.lastIndex : at;
}

/** Return what can be written at the cursor: names of tables, columns of those that the statement names, and words. */
export function suggestCommands(text: string, cursor: number, dialect: string, names: Names | null): Suggestion[] {
  const statement = spanAt(commandStatements(text, dialect), cursor);
  const written = new Set(text.slice(statement.start, statement.end).match(/[\w./#-]+/g));
  const tables = names?.tables ?? [];
  const columns = tables.filter(({ name }) => written.has(name)).flatMap((table) => table.columns);
  return [
    ...new Map(
      columns.map(({ name, type }) => [name, { label: name, detail: type, kind: "column" as const }]),
    ).values(),
    ...tables.map(({ name, schema }) => ({ label: name, detail: schema, kind: "table" as const })),
    ...(WORDS[dialect] ?? "").split(" ").map((label) => ({ label, detail: "", kind: "method" as const })),
  ];
}

/** Return the span that a place is in, or else the last one before it. */
export function spanAt(spans: Span[], cursor: number): Span {
  const begun = spans.filter(({ start }) => start <= cursor);
  return begun.at(-1) ?? spans[0] ?? { start: cursor, end: cursor };
}

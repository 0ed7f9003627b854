// Which parts of a SQL text are code: quotes and comments are skipped. Enough for an editor's help, not for rules.
// Scripts for MongoDB, AWS services and HTTP applications have readers of their own.

import { commandStatements, hasCommands, spanAt } from "./commands";
import { CHOSEN_QUOTES, GO_LINE, type SqlDialect, sqlDialectOf } from "./dialects";
import { requestPlaceholders, requestSpans } from "./requests";
import { type Span, shellPlaceholders, shellStatementAt, shellStatements } from "./shell";

/** A piece of code between quotes and comments. */
export interface Code {
  start: number;
  text: string;
}

const LINE_COMMENT = /--[^\n]*/y;
const COMMENT = /\/\*[\s\S]*?(?:\*\/|$)/y;
const TEXT = /'(?:[^']|'')*(?:'|$)/y;
const SKIPPED: Record<SqlDialect, readonly RegExp[]> = {
  postgres: [LINE_COMMENT, COMMENT, TEXT, /\$([A-Za-z_]\w*|)\$[\s\S]*?(?:\$\1\$|$)/y],
  mysql: [/--(?=\s|$)[^\n]*/y, /#[^\n]*/y, COMMENT, /'(?:[^'\\]|''|\\[\s\S])*(?:'|$)/y],
  mssql: [LINE_COMMENT, COMMENT, TEXT],
  oracledb: [LINE_COMMENT, COMMENT, new RegExp(String.raw`(?<![\w$#])${CHOSEN_QUOTES}`, "iy"), TEXT],
};

/** Return the code of a text. Names in double quotes, backticks or brackets are code. */
export function codeOf(text: string, dialect: string): Code[] {
  const skipped = SKIPPED[sqlDialectOf(dialect)];
  const pieces: Code[] = [];
  let start = 0;
  for (let at = 0; at < text.length; ) {
    const length = lengthOfSkipped(text, at, skipped);
    if (length === 0) {
      at += 1;
      continue;
    }
    if (at > start) pieces.push({ start, text: text.slice(start, at) });
    at += length;
    start = at;
  }
  if (start < text.length) pieces.push({ start, text: text.slice(start) });
  return pieces;
}

function lengthOfSkipped(text: string, at: number, skipped: readonly RegExp[]): number {
  for (const pattern of skipped) {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match) return match[0].length;
  }
  return 0;
}

const PLACEHOLDER = /(?<![\w:)\]"'])[:](?!:)([A-Za-z_]\w*)/g;
const ROWS_OF_TRIGGERS = new Set(["new", "old"]); // :new.total in Oracle's triggers

/** Return the names of placeholders `:name`, each once. Casts, slices and times are no placeholders. */
export function placeholdersOf(text: string, dialect: string): string[] {
  if (dialect === "mongodb") return shellPlaceholders(text);
  if (dialect === "httpproxy") return requestPlaceholders(text);
  if (hasCommands(dialect)) return [];
  const code = codeOf(text, dialect);
  const names = code.flatMap((piece) => [...piece.text.matchAll(PLACEHOLDER)].map((match) => match[1] ?? ""));
  const isOfTrigger = (name: string) => dialect === "oracledb" && ROWS_OF_TRIGGERS.has(name.toLowerCase());
  return [...new Set(names)].filter((name) => !isOfTrigger(name));
}

/** Return the statement that the cursor is in. */
export function statementAt(text: string, cursor: number, dialect: string): Span {
  if (dialect === "mongodb") return shellStatementAt(text, cursor);
  if (dialect === "httpproxy") return spanAt(requestSpans(text), cursor);
  if (hasCommands(dialect)) return spanAt(commandStatements(text, dialect), cursor);
  const spans = sqlSpans(text, sqlDialectOf(dialect));
  return spans.find(({ end }) => end >= cursor) ?? { start: text.length, end: text.length };
}

/** Return how many statements a script has. */
export function countStatements(text: string, dialect: string): number {
  if (dialect === "mongodb") return shellStatements(text).length;
  if (dialect === "httpproxy") return requestSpans(text).length;
  if (hasCommands(dialect)) return commandStatements(text, dialect).length;
  return sqlSpans(text, sqlDialectOf(dialect)).filter(({ hasCode }) => hasCode).length;
}

// What ends a statement: semicolons, and the lines that end batches of T-SQL and code of Oracle.
const ENDS: Record<SqlDialect, RegExp> = {
  postgres: /;/g,
  mysql: /;/g,
  mssql: new RegExp(`;|${GO_LINE}`, "gim"),
  oracledb: /;|(?<=^[ \t]*)\/(?=[ \t\r]*$)/gm,
};

// With these, code of Oracle begins that has semicolons of its own.
const BEGINS_CODE =
  /^\s*(?:begin\b|declare\b|<<|create\s+(?:or\s+replace\s+)?(?:(?:non)?editionable\s+)?(?:procedure|function|trigger|package|type)\b|with\s+(?:function|procedure)\b)/i;

interface SqlSpan extends Span {
  hasCode: boolean;
}

/** Return the parts of a text that semicolons in code, and lines that end batches, separate. */
function sqlSpans(text: string, dialect: SqlDialect): SqlSpan[] {
  const spans: SqlSpan[] = [];
  let span = { start: 0, end: text.length, hasCode: false };
  let isBlock: boolean | null = null; // whether the part has semicolons of its own; null until its first one
  for (const piece of codeOf(text, dialect)) {
    const after = piece.start + piece.text.length;
    let from = piece.start;
    for (const match of endsIn(text, from, after, ENDS[dialect])) {
      span.hasCode ||= text.slice(from, match.index).trim() !== "";
      from = match.index + match[0].length;
      if (match[0] === ";" && dialect === "oracledb") {
        isBlock ??= BEGINS_CODE.test(readCode(text.slice(span.start, match.index), dialect));
        if (isBlock) continue;
      }
      spans.push({ ...span, end: match.index });
      span = { start: from, end: text.length, hasCode: false };
      isBlock = null;
    }
    span.hasCode ||= text.slice(from, after).trim() !== "";
  }
  return [...spans, span];
}

function* endsIn(text: string, start: number, end: number, pattern: RegExp): Generator<RegExpExecArray> {
  pattern.lastIndex = start;
  for (let match = pattern.exec(text); match !== null && match.index < end; match = pattern.exec(text)) {
    const after = pattern.lastIndex;
    yield match;
    pattern.lastIndex = after;
  }
}

function readCode(text: string, dialect: SqlDialect): string {
  return codeOf(text, dialect)
    .map((piece) => piece.text)
    .join(" ");
}

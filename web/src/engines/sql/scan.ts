// Which parts of a SQL text are code: quotes and comments are skipped. Enough for an editor's help, not for rules.
// Scripts for MongoDB, AWS services and HTTP applications have readers of their own.

import { blockSpans } from "./blocks";
import { commandStatements, hasCommands, spanAt } from "./commands";
import { requestPlaceholders, requestSpans } from "./requests";
import { type Span, shellPlaceholders, shellStatementAt, shellStatements } from "./shell";

/** Whether scripts of this dialect are SQL. */
export function isSql(dialect: string): boolean {
  return dialect !== "mongodb" && dialect !== "httpproxy" && !hasCommands(dialect);
}

/** A piece of code between quotes and comments. */
export interface Code {
  start: number;
  text: string;
}

const SKIPPED = [
  /--[^\n]*/y,
  /\/\*[\s\S]*?(?:\*\/|$)/y,
  /'(?:[^']|'')*(?:'|$)/y,
  /\$([A-Za-z_]\w*|)\$[\s\S]*?(?:\$\1\$|$)/y,
];

/** Return the code of a text. Names in double quotes or backticks are code. */
export function codeOf(text: string): Code[] {
  const pieces: Code[] = [];
  let start = 0;
  for (let at = 0; at < text.length; ) {
    const length = skippedAt(text, at);
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

function skippedAt(text: string, at: number): number {
  for (const pattern of SKIPPED) {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match) return match[0].length;
  }
  return 0;
}

const PLACEHOLDER = /(?<![\w:)\]"'])[:](?!:)([A-Za-z_]\w*)/g;

/** Return the names of placeholders `:name`, each once. Casts, slices and times are no placeholders. */
export function placeholdersOf(text: string, dialect: string): string[] {
  if (dialect === "mongodb") return shellPlaceholders(text);
  if (dialect === "httpproxy") return requestPlaceholders(text);
  if (hasCommands(dialect)) return [];
  const names = codeOf(text).flatMap((piece) => [...piece.text.matchAll(PLACEHOLDER)].map((match) => match[1] ?? ""));
  return [...new Set(names)];
}

/** Return the statement that the cursor is in, by semicolons in code, or as the dialect has it. */
export function statementAt(text: string, cursor: number, dialect: string): Span {
  if (dialect === "mongodb") return shellStatementAt(text, cursor);
  if (dialect === "httpproxy") return spanAt(requestSpans(text), cursor);
  if (hasCommands(dialect)) return spanAt(commandStatements(text, dialect), cursor);
  const code = codeOf(text);
  const spans = blockSpans(text, code, dialect);
  if (spans) return spanAt(spans, cursor);
  let start = 0;
  for (const piece of code) {
    for (const match of piece.text.matchAll(/;/g)) {
      const at = piece.start + (match.index ?? 0);
      if (at < cursor) start = at + 1;
      else return { start, end: at };
    }
  }
  return { start, end: text.length };
}

/** Return how many statements a script has, by semicolons in code, or as the dialect has them. */
export function countStatements(text: string, dialect: string): number {
  if (dialect === "mongodb") return shellStatements(text).length;
  if (dialect === "httpproxy") return requestSpans(text).length;
  if (hasCommands(dialect)) return commandStatements(text, dialect).length;
  const code = codeOf(text);
  const spans = blockSpans(text, code, dialect);
  if (spans) return spans.length;
  return code
    .map((piece) => piece.text)
    .join(" ")
    .split(";")
    .filter((statement) => statement.trim() !== "").length;
}

// Scripts of MongoDB's shell: what of them is code, where statements end, and what to offer at the cursor. Enough for an
// editor's help, not for rules.

import type { Names, Suggestion, Table } from "./completion";

export interface Span {
  start: number;
  end: number;
}

const COMMENT = /\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/y;
const TEXT = /"(?:[^"\\\n]|\\[\s\S])*"?|'(?:[^'\\\n]|\\[\s\S])*'?|`(?:[^`\\]|\\[\s\S])*`?/y;
const REGEX = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\]?)+\/?\w*/y;
const PLACEHOLDER = /(?<=[:,([]\s*):([\p{L}_][\p{L}\p{N}_]*)/gu;

/** Return a text of the same length: comments are blanks, and texts and regular expressions are quotes. */
export function maskShell(text: string): string {
  let masked = "";
  let before = ""; // the last character of code
  while (masked.length < text.length) {
    const at = masked.length;
    const comment = matchAt(COMMENT, text, at);
    const quoted = matchAt(TEXT, text, at) || (/^[(,:[{]?$/.test(before) ? matchAt(REGEX, text, at) : "");
    if (comment) masked += comment.replace(/[^\n]/g, " ");
    else if (quoted) masked += '"'.repeat(quoted.length);
    else masked += text[at];
    if (!comment && /\S/.test(masked.at(-1) ?? "")) before = masked.at(-1) ?? "";
  }
  return masked;
}

function matchAt(pattern: RegExp, text: string, at: number): string {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? "";
}

/** Return the statements that are not empty. They end at a semicolon, or at a line end that nothing continues. */
export function shellStatements(text: string): Span[] {
  const masked = maskShell(text);
  const statements: Span[] = [];
  let [start, depth] = [0, 0];
  const finish = (end: number) => {
    if (masked.slice(start, end).trim()) statements.push({ start, end });
    start = end + 1;
  };
  for (let at = 0; at < masked.length; at += 1) {
    const sign = masked[at] ?? "";
    if ("([{".includes(sign)) depth += 1;
    else if (")]}".includes(sign)) depth = Math.max(0, depth - 1);
    else if (depth === 0 && (sign === ";" || (sign === "\n" && endsAt(masked, start, at)))) finish(at);
  }
  finish(masked.length);
  return statements;
}

/** Whether a statement ends at this line end: the next line does not begin as a continuation does. */
function endsAt(masked: string, start: number, at: number): boolean {
  return masked.slice(start, at).trim() !== "" && !/^\s*[.[(]/.test(masked.slice(at));
}

/** Return the statement that the cursor is in, or else the last one before it. */
export function shellStatementAt(text: string, cursor: number): Span {
  const statements = shellStatements(text);
  return statements.find(({ end }) => end >= cursor) ?? statements.at(-1) ?? { start: cursor, end: cursor };
}

/** Return the names of placeholders `:name`, each once. They stand where a value is expected. */
export function shellPlaceholders(text: string): string[] {
  return [...new Set([...maskShell(text).matchAll(PLACEHOLDER)].map((match) => match[1] ?? ""))];
}

const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;
const METHODS =
  "find findOne aggregate countDocuments estimatedDocumentCount distinct insertOne insertMany updateOne updateMany replaceOne deleteOne deleteMany findOneAndUpdate findOneAndReplace findOneAndDelete bulkWrite createIndex dropIndex getIndexes drop renameCollection stats explain";
const CURSOR_METHODS = "sort limit skip hint collation count explain batchSize maxTimeMS";
const DATABASE_METHODS =
  "getCollection getSiblingDB runCommand adminCommand aggregate getCollectionNames createCollection createView stats currentOp";

export interface Offer {
  /** Where the word begins that a suggestion replaces. */
  from: number;
  suggestions: (Suggestion & { apply: string })[];
}

/** Return what fits at the cursor: collections and methods after `db`, and fields in documents. */
export function suggestShell(text: string, cursor: number, names: Names): Offer | null {
  const { start } = shellStatementAt(text, cursor);
  const before = text.slice(start, cursor);
  const masked = maskShell(before);
  const inText = textAt(before, masked);
  if (inText !== null) return fieldsOf(before, masked, names, start + inText, true);
  const word = /[\w$]*$/.exec(before)?.[0] ?? "";
  const from = cursor - word.length;
  const chain = masked.slice(0, masked.length - word.length);
  if (/\bdb\s*\.\s*$/.test(chain)) {
    const tables = names.tables.map((table) => ({ ...collection(table), apply: memberOf(table.name) }));
    return { from, suggestions: [...tables, ...methods(DATABASE_METHODS)] };
  }
  if (depthOf(chain) > 0) return fieldsOf(before, masked, names, from, false);
  if (/\bdb\s*\.\s*[\w$]+\s*\.\s*$|\bget(?:Collection)\("+\)\.\s*$|\bdb\["+\]\.\s*$/.test(chain))
    return { from, suggestions: methods(METHODS) };
  if (/\)\s*\.\s*$/.test(chain)) return { from, suggestions: methods(CURSOR_METHODS) };
  return null;
}

/** Return where the path begins that is typed in an open text at the end, after a `$`; null outside of a text. */
function textAt(before: string, masked: string): number | null {
  const open = /"+$/.exec(masked)?.index;
  if (open === undefined) return null;
  const quote = before[open] ?? "";
  const body = before.slice(open + 1);
  const isClosed = body.endsWith(quote) && !body.endsWith(`\\${quote}`);
  if (!/["'`]/.test(quote) || isClosed) return null;
  return open + 1 + (/^\$+/.exec(body)?.[0].length ?? 0);
}

function depthOf(masked: string): number {
  return [...masked].reduce((depth, sign) => depth + ("([{".includes(sign) ? 1 : ")]}".includes(sign) ? -1 : 0), 0);
}

/** Offer the fields of the statement's collections; without one in it, none. */
function fieldsOf(before: string, masked: string, names: Names, from: number, isText: boolean): Offer | null {
  const written = [
    ...before.matchAll(/\bdb\s*\.\s*(?!getCollection\b)([\w$]+)|(?:getCollection\(|db\[|from\s*:\s*)["']([^"']+)["']/g),
  ];
  const tables = written.flatMap(([, plain, quoted]) => names.find(plain ?? quoted ?? "", null));
  const columns = new Map(tables.flatMap(({ columns }) => columns.map(({ name, type }) => [name, type] as const)));
  if (columns.size === 0 || depthOf(masked) === 0) return null;
  return {
    from,
    suggestions: [...columns].map(([label, detail]) => ({
      label,
      detail,
      kind: "column",
      apply: isText ? label : quoteShell(label),
    })),
  };
}

function collection({ schema, name }: Table): Suggestion {
  return { label: name, detail: schema, kind: "table" };
}

function methods(words: string): (Suggestion & { apply: string })[] {
  return words.split(" ").map((label) => ({ label, detail: "", kind: "method", apply: label }));
}

function memberOf(name: string): string {
  return IDENTIFIER.test(name) ? name : `getCollection(${JSON.stringify(name)})`;
}

/** Return the name of a collection or the path of a field, in quotes where it must be. */
export function quoteShell(name: string): string {
  return IDENTIFIER.test(name) ? name : JSON.stringify(name);
}

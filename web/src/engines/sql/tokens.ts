// The tokens of a SQL text, exactly as a database reads them: to tell whether two texts mean the same. `scan.ts` is for
// help while typing, and knows no dialects.

import { CHOSEN_QUOTES, GO_LINE, type SqlDialect, sqlDialectOf } from "./dialects";

export interface Tokens {
  /** All but white space and comments, in order; white space that has a meaning is a token of its own. */
  code: string[];
  /** Comments in order, each without its white space. */
  comments: string[];
}

/** `line`: alone on its line, which gives it its meaning. */
type Kind = "space" | "comment" | "text" | "code" | "line";
type Rule = readonly [kind: Kind, pattern: RegExp];

const NUMBER = /(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?[\p{L}\p{N}_$]*/iuy;
const SPACE: Rule = ["space", /[ \t\r\n\f\v]+/y];
const PLACEHOLDER = /:[\p{L}_][\p{L}\p{N}_]*/uy;

const POSTGRES: readonly Rule[] = [
  SPACE,
  ["comment", /--[^\r\n]*/y],
  ["text", /(?:[bnx]|u&)?'(?:[^']|'')*(?:'|$)/iy],
  ["text", /e'(?:[^'\\]|''|\\[\s\S])*(?:'|$)/iy],
  ["text", /\$([\p{L}_][\p{L}\p{N}_]*|)\$[\s\S]*?(?:\$\1\$|$)/uy],
  ["code", /(?:u&)?"(?:[^"]|"")*(?:"|$)/iy],
  ["code", NUMBER],
  ["code", /\$\d+/y],
  ["code", /::|:=|\.\./y],
  ["code", PLACEHOLDER],
  ["code", /[\p{L}_][\p{L}\p{N}_$]*/uy],
  // An operator ends before a comment, and with + or - only if it has one of the characters that SQL does not use.
  ["code", /(?=(?:(?!--|\/\*)[-+*/<>=~!@#%^&|`?])*[~!@#%^&|`?])(?:(?!--|\/\*)[-+*/<>=~!@#%^&|`?])+/y],
  ["code", /(?:(?!--|\/\*)[-+*/<>=])*(?!--|\/\*)[*/<>=]|[-+]/y],
];

const MYSQL: readonly Rule[] = [
  SPACE,
  ["comment", /--(?=[\s]|$)[^\n]*/y],
  ["comment", /#[^\n]*/y],
  ["comment", /\/\*[\s\S]*?(?:\*\/|$)/y],
  ["text", /(?:[bnx]|_[a-z0-9]+)?'(?:[^'\\]|''|\\[\s\S])*(?:'|$)/iy],
  ["text", /"(?:[^"\\]|""|\\[\s\S])*(?:"|$)/y],
  ["code", /`(?:[^`]|``)*(?:`|$)/y],
  ["code", NUMBER],
  ["code", /@{0,2}[\p{L}\p{N}_$]+/uy],
  ["code", /@@?(?=['"`])/y],
  ["code", PLACEHOLDER],
  ["code", /<=>|->>|->|:=|<=|>=|<>|!=|\|\||&&|<<|>>/y],
];

const MSSQL: readonly Rule[] = [
  SPACE,
  ["comment", /--[^\n]*/y],
  ["line", new RegExp(GO_LINE, "imy")],
  ["text", /n?'(?:[^']|'')*(?:'|$)/iy],
  ["code", /"(?:[^"]|"")*(?:"|$)/y],
  ["code", /\[(?:[^\]]|\]\])*(?:\]|$)/y],
  ["code", /\$\d[\d.]*/y],
  ["code", NUMBER],
  ["code", /[@#]{0,2}[\p{L}_][\p{L}\p{N}_@$#]*/uy],
  ["code", /::/y],
  ["code", PLACEHOLDER],
  ["code", /[<>!=+\-*/%&|^]=|<>|!<|!>/y],
];

const ORACLE: readonly Rule[] = [
  SPACE,
  ["code", /\/\*\+[\s\S]*?(?:\*\/|$)/y], // a hint is for the word before it
  ["comment", /--(?!\+)[^\n]*/y],
  ["comment", /\/\*[\s\S]*?(?:\*\/|$)/y],
  ["line", /--\+[^\n]*/y],
  ["line", /(?<=(?:^|\n)[ \t]*)\/(?=[ \t\r]*(?:\n|$))/y],
  ["text", new RegExp(CHOSEN_QUOTES, "iy")],
  ["text", /[nux]?'(?:[^']|'')*(?:'|$)/iy],
  ["code", /"[^"]*(?:"|$)/y],
  ["code", NUMBER],
  ["code", /:(?:[\p{L}][\p{L}\p{N}_$#]*|\d+)/uy],
  ["code", /[\p{L}_][\p{L}\p{N}_$#]*/uy],
  ["code", /:=|=>|\*\*|\|\||<<|>>|<>|!=|\^=|~=|<=|>=|\.\./y],
];

interface Reading {
  rules: readonly Rule[];
  /** Whether comments are in comments. */
  nests?: boolean;
  /** Whether texts that follow each other are one, depending on what is between them. */
  joinsTexts?: boolean;
  /** Names of functions that end before a bracket only if nothing is between them. */
  tight?: RegExp;
}

// With these, MySQL reads a function only if nothing is between the name and the bracket.
const TIGHT =
  /^(?:adddate|bit_(?:and|or|xor)|cast|count|cur(?:date|time)|date_(?:add|sub)|extract|group_concat|max|mid|min|now|position|session_user|std|stddev(?:_pop|_samp)?|subdate|substr(?:ing)?|sum|sysdate|system_user|trim|variance|var_(?:pop|samp))$/i;

const READINGS: Record<SqlDialect, Reading> = {
  postgres: { rules: POSTGRES, nests: true, joinsTexts: true },
  mysql: { rules: MYSQL, tight: TIGHT },
  mssql: { rules: MSSQL, nests: true },
  oracledb: { rules: ORACLE },
};

/** Return the tokens of a text in the language of a database. */
export function tokensOf(text: string, dialect: string): Tokens {
  const reading = READINGS[sqlDialectOf(dialect)];
  const tokens: Tokens = { code: [], comments: [] };
  let gap = ""; // the white space and comments before
  let last: Kind = "code";
  for (let at = 0; at < text.length; ) {
    const [kind, token] = tokenAt(text, at, reading);
    at += token.length;
    if (kind === "space" || kind === "comment") {
      gap += kind === "space" ? token : " ";
      if (kind === "comment") tokens.comments.push(token.replace(/\s+/g, ""));
      continue;
    }
    const before = tokens.code.at(-1) ?? "";
    // PostgreSQL joins texts on lines that follow each other.
    if (reading.joinsTexts && kind === "text" && last === "text") tokens.code.push(/[\r\n]/.test(gap) ? "\n" : " ");
    if (token === "(" && gap !== "" && reading.tight?.test(before)) tokens.code.push(" ");
    tokens.code.push(kind === "line" ? `\n${token.trimEnd()}` : token);
    last = kind;
    gap = "";
  }
  return tokens;
}

/** Whether two texts differ in white space and the places of comments only. */
export function meanTheSame(first: string, second: string, dialect: string): boolean {
  const [one, other] = [tokensOf(first, dialect), tokensOf(second, dialect)];
  return isEqual(one.code, other.code) && isEqual(one.comments, other.comments);
}

function tokenAt(text: string, at: number, { rules, nests }: Reading): [Kind, string] {
  if (nests && text.startsWith("/*", at)) return ["comment", nestedComment(text, at)];
  for (const [kind, pattern] of rules) {
    pattern.lastIndex = at;
    const token = pattern.exec(text)?.[0];
    if (token) return [kind, token];
  }
  return ["code", String.fromCodePoint(text.codePointAt(at) ?? 0)];
}

/** Return the comment that begins here, with the comments in it. */
function nestedComment(text: string, start: number): string {
  const edges = /\/\*|\*\//g;
  edges.lastIndex = start;
  let depth = 0;
  for (let edge = edges.exec(text); edge !== null; edge = edges.exec(text)) {
    depth += edge[0] === "/*" ? 1 : -1;
    if (depth === 0) return text.slice(start, edges.lastIndex);
  }
  return text.slice(start);
}

function isEqual(first: readonly string[], second: readonly string[]): boolean {
  return first.length === second.length && first.every((token, index) => token === second[index]);
}

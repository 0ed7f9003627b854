// The tokens of a SQL text, exactly as a database reads them: to tell whether two texts mean the same. `scan.ts` is for
// help while typing, and knows no dialects.

export interface Tokens {
  /** All but white space and comments, in order; white space that has a meaning is a token of its own. */
  code: string[];
  /** Comments in order, each without its white space. */
  comments: string[];
}

type Kind = "space" | "comment" | "text" | "code";
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

// With these, MySQL reads a function only if nothing is between the name and the bracket.
const TIGHT =
  /^(?:adddate|bit_(?:and|or|xor)|cast|count|cur(?:date|time)|date_(?:add|sub)|extract|group_concat|max|mid|min|now|position|session_user|std|stddev(?:_pop|_samp)?|subdate|substr(?:ing)?|sum|sysdate|system_user|trim|variance|var_(?:pop|samp))$/i;

/** Return the tokens of a text in the language of a database: `mysql`, or else PostgreSQL's. */
export function tokensOf(text: string, dialect: string): Tokens {
  const isMysql = dialect === "mysql";
  const rules = isMysql ? MYSQL : POSTGRES;
  const tokens: Tokens = { code: [], comments: [] };
  let gap = ""; // the white space and comments before
  let last: Kind = "code";
  for (let at = 0; at < text.length; ) {
    const [kind, token] = tokenAt(text, at, rules, isMysql);
    at += token.length;
    if (kind === "space" || kind === "comment") {
      gap += kind === "space" ? token : " ";
      if (kind === "comment") tokens.comments.push(token.replace(/\s+/g, ""));
      continue;
    }
    const before = tokens.code.at(-1) ?? "";
    // PostgreSQL joins texts on lines that follow each other.
    if (!isMysql && kind === "text" && last === "text") tokens.code.push(/[\r\n]/.test(gap) ? "\n" : " ");
    if (isMysql && token === "(" && gap !== "" && TIGHT.test(before)) tokens.code.push(" ");
    tokens.code.push(token);
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

function tokenAt(text: string, at: number, rules: readonly Rule[], isMysql: boolean): [Kind, string] {
  if (!isMysql && text.startsWith("/*", at)) return ["comment", nestedComment(text, at)];
  for (const [kind, pattern] of rules) {
    pattern.lastIndex = at;
    const token = pattern.exec(text)?.[0];
    if (token) return [kind, token];
  }
  return ["code", String.fromCodePoint(text.codePointAt(at) ?? 0)];
}

/** Return the comment that begins here. In PostgreSQL comments are in comments. */
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

// Statements of SQL Server and Oracle Database, cut where the gateway cuts them. Code has semicolons of its own, and
// takes all up to a line with GO or `/`.

import type { Code } from "./scan";
import type { Span } from "./shell";

interface Rules {
  end: RegExp; // a line between batches, or after code
  code: RegExp; // a statement that is code
  together: RegExp; // what makes a batch one statement
}

const CREATES =
  /^\s*(?:create|alter)\s+(?:or\s+\w+\s+)?(?:(?:non)?editionable\s+)?(?:proc(?:edure)?|function|trigger|package|type|java)\b/i;
const BEGINS = /^\s*(?:begin|declare|<<)|\bwith\s+(?:function|procedure)\b/i;

const RULES: Readonly<Record<string, Rules>> = {
  mssql: {
    end: /^[ \t]*go(?:[ \t]+\d+)?[ \t]*$/gim,
    code: CREATES,
    together: /@\w|\b(?:begin|declare|else|end|goto|if|while)\b/i,
  },
  oracledb: {
    end: /^[ \t]*\/[ \t]*$/gm,
    code: new RegExp(`${BEGINS.source}|${CREATES.source}`, "i"),
    together: /(?!)/,
  },
};

/** Return the statements of a text, or null if semicolons alone end them in this dialect. */
export function blockSpans(text: string, code: Code[], dialect: string): Span[] | null {
  const rules = RULES[dialect];
  if (!rules) return null;
  const plain = plainText(text, code);
  const spans: Span[] = [];
  let start = 0;
  for (const line of plain.matchAll(rules.end)) {
    spans.push(...spansOf(plain, { start, end: line.index }, rules));
    start = line.index + line[0].length;
  }
  return [...spans, ...spansOf(plain, { start, end: text.length }, rules)];
}

/** Return a text of the same length that has blanks instead of quotes and comments. */
function plainText(text: string, code: Code[]): string {
  let plain = "";
  for (const piece of code) {
    plain += text.slice(plain.length, piece.start).replace(/[^\n]/g, " ") + piece.text;
  }
  return plain.padEnd(text.length);
}

function spansOf(plain: string, batch: Span, rules: Rules): Span[] {
  const text = plain.slice(batch.start, batch.end);
  const spans: Span[] = [];
  let start = 0;
  for (const statement of rules.together.test(text) ? [text] : text.split(";")) {
    if (rules.code.test(statement)) {
      spans.push({ start: batch.start + start, end: batch.end });
      break;
    }
    const end = start + statement.length;
    if (statement.trim()) spans.push({ start: batch.start + start, end: batch.start + end });
    start = end + 1;
  }
  return spans;
}

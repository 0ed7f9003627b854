// The dialects of SQL that the editor knows. Each subtype of a connection whose scripts are SQL has one, so that a new
// one does not compile until all of the editor's help knows it.

import { PROTOCOLS } from "../protocols";

type Subtype = keyof typeof PROTOCOLS;
export type SqlDialect = { [Name in Subtype]: (typeof PROTOCOLS)[Name]["isSql"] extends true ? Name : never }[Subtype];

/** Whether scripts of this subtype are SQL. Those of a command of no known kind may be. */
export function isSql(subtype: string): boolean {
  return !isKnown(subtype) || PROTOCOLS[subtype].isSql;
}

/** Return the dialect of a subtype; PostgreSQL's for a command. */
export function sqlDialectOf(subtype: string): SqlDialect {
  return isKnown(subtype) && PROTOCOLS[subtype].isSql ? (subtype as SqlDialect) : "postgres";
}

/** A line that ends a batch of T-SQL, for an expression with the flags `i` and `m`. */
export const GO_LINE = String.raw`(?<=^[ \t]*)go(?:[ \t]+\d+)?(?=[ \t\r]*(?:--.*)?$)`;
/** A text in quotes that Oracle's users choose, q'[…]', for an expression with the flag `i` and no groups before it. */
export const CHOSEN_QUOTES = String.raw`n?q'(?:\[[\s\S]*?\]'|\([\s\S]*?\)'|\{[\s\S]*?\}'|<[\s\S]*?>'|([^\s[({<])[\s\S]*?\1')`;

function isKnown(subtype: string): subtype is Subtype {
  return Object.hasOwn(PROTOCOLS, subtype);
}

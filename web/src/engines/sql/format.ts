// Formats scripts. It is loaded when it is used first: the formatter is larger than the rest of an editor's help.

import { type DialectOptions, formatDialect, mysql, plsql, postgresql, transactsql } from "sql-formatter";
import { isSql, type SqlDialect, sqlDialectOf } from "./dialects";
import { meanTheSame } from "./tokens";

const LONGEST = 50_000; // characters; a longer script would stop the page for more than a second

/** `unreadable`: the formatter cannot read it; `changed`: it would have changed more than white space; `language`: there
 * is no formatter. */
export type FormatProblem = "long" | "unreadable" | "changed" | "language";
export type Formatted = { text: string; problem: null } | { text: null; problem: FormatProblem };

interface Language {
  dialect: DialectOptions;
  paramTypes: { named: (":" | "@" | "$")[]; numbered?: (":" | "?" | "$")[]; positional?: boolean };
}

const LANGUAGES: Record<SqlDialect, Language> = {
  postgres: { dialect: postgresql, paramTypes: { named: [":"], numbered: ["$"] } },
  mysql: { dialect: mysql, paramTypes: { named: [":"], positional: true } },
  mssql: { dialect: transactsql, paramTypes: { named: [":", "@"] } },
  oracledb: { dialect: plsql, paramTypes: { named: [":"], numbered: [":"] } },
};

/** Return a script with other white space, or why it must stay as it is. */
export function formatScript(script: string, dialect: string): Formatted {
  if (!isSql(dialect)) return { text: null, problem: "language" };
  if (script.length > LONGEST) return { text: null, problem: "long" };
  let text: string;
  try {
    text = formatDialect(script, LANGUAGES[sqlDialectOf(dialect)]);
  } catch {
    return { text: null, problem: "unreadable" };
  }
  return meanTheSame(script, text, dialect) ? { text, problem: null } : { text: null, problem: "changed" };
}

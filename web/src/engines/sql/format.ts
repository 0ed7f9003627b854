// Formats scripts. It is loaded when it is used first: the formatter is larger than the rest of an editor's help.

import { formatDialect, mysql, postgresql } from "sql-formatter";
import { isSql } from "./scan";
import { meanTheSame } from "./tokens";

const LONGEST = 50_000; // characters; a longer script would stop the page for more than a second

/** `unreadable`: the formatter cannot read it; `changed`: it would have changed more than white space; `language`: there
 * is no formatter. */
export type FormatProblem = "long" | "unreadable" | "changed" | "language";
export type Formatted = { text: string; problem: null } | { text: null; problem: FormatProblem };

const OPTIONS = {
  postgres: { dialect: postgresql, paramTypes: { named: [":"], numbered: ["$"] } },
  mysql: { dialect: mysql, paramTypes: { named: [":"], positional: true } },
} as const;

// Their lines with GO and `/` must stay lines.
const UNFORMATTED = new Set(["mssql", "oracledb"]);

/** Return a script with other white space, or why it must stay as it is. */
export function formatScript(script: string, dialect: string): Formatted {
  if (!isSql(dialect) || UNFORMATTED.has(dialect)) return { text: null, problem: "language" };
  if (script.length > LONGEST) return { text: null, problem: "long" };
  const { dialect: language, paramTypes } = dialect === "mysql" ? OPTIONS.mysql : OPTIONS.postgres;
  let text: string;
  try {
    text = formatDialect(script, {
      dialect: language,
      paramTypes: { ...paramTypes, named: [...paramTypes.named] } as never,
    });
  } catch {
    return { text: null, problem: "unreadable" };
  }
  return meanTheSame(script, text, dialect) ? { text, problem: null } : { text: null, problem: "changed" };
}

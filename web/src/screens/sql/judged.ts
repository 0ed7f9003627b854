import type { Preview } from "../../api/scripts";
import { unitsOf, wordAt } from "../../engines/sql/positions";
import type { Mark } from "./marks";

/** What the preview says about a script. */
export interface Judged {
  script: string;
  preview: Preview;
}

const KINDS = { deny: "deny", hold: "hold", warn: "warn", allow: null } as const;

/** Return marks for what a preview says about statements, in an editor in which its script begins at `from`. */
export function judgedMarks({ script, preview }: Judged, from: number): Mark[] {
  const { statements, syntax_error } = preview;
  const marks: Mark[] = statements.flatMap(({ outcome, offset, length, messages }) => {
    const kind = KINDS[outcome];
    if (kind === null) return [];
    const start = unitsOf(script, offset);
    const end = start + unitsOf(script.slice(start), length);
    const message = messages.map((told) => `${told.message} ${told.hint}`.trim()).join(" ");
    return [{ kind, message, from: from + start, to: from + end }];
  });
  if (syntax_error && syntax_error.offset !== null) {
    const word = wordAt(script, unitsOf(script, syntax_error.offset));
    marks.push({
      kind: "unreadable",
      message: syntax_error.message,
      from: from + word.from,
      to: from + word.to,
    });
  }
  return marks.filter((mark) => mark.from < mark.to);
}

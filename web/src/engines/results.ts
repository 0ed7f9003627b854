// Results of a script's statements: whole from an answer, or growing with the lines of a stream while the script runs.

import { type MaskedCells, MaskFinder, type ResultField } from "./masks";

export type Cells = (string | null)[];

export interface Notice {
  severity: string;
  text: string;
}

/** The result of one statement as the gateway answers with it, after masking. */
export interface StatementResult {
  columns: string[];
  fields: ResultField[];
  masked: MaskedCells | null;
  rows: Cells[];
  tag: string;
  notices: Notice[];
  truncated: boolean;
  /** Why the statement failed. */
  error?: Notice | null;
}

/** The result of one statement as a page shows it. */
export interface ShownResult {
  /** Counts statements from 1. */
  number: number;
  columns: string[];
  fields: ResultField[];
  rows: Cells[];
  masks: MaskFinder;
  /** The first row from which it is not known which cells were masked. */
  incompleteFrom: number | null;
  notices: Notice[];
  tag: string;
  isTruncated: boolean;
  /** The statement ended with an error. */
  isFailed: boolean;
  /** The statement runs: more rows can come. */
  isOpen: boolean;
}

/** Return a whole result as it is shown. */
export function shownResult(result: StatementResult, index: number): ShownResult {
  const { columns, rows, notices, tag, truncated } = result;
  const fields = result.fields ?? [];
  const incompleteFrom = result.masked?.incomplete_from ?? null;
  const masks = new MaskFinder(result.masked, fields);
  return {
    number: index + 1,
    columns,
    fields,
    rows,
    masks,
    incompleteFrom,
    notices,
    tag,
    isTruncated: truncated,
    isFailed: Boolean(result.error),
    isOpen: false,
  };
}

type Of<Type extends string, Fields> = { type: Type; result: number } & Fields;

/** One line of a stream; `result` counts statements from 0. */
export type ResultLine =
  | Of<"columns", { columns: string[]; fields: ResultField[] }>
  | Of<"rows", { row: number; next_row: number; masked: Pick<MaskedCells, "masks" | "cells">; rows: Cells[] }>
  | Of<"notice", Notice>
  | Of<"done", { tag: string }>
  | Of<"error", Notice>
  | { type: "waiting" }
  | { type: "end"; truncated: boolean }
  | { type: "cut"; reason: string };

/** How far a script is. */
export interface Progress {
  /** Statements that have ended. */
  done: number;
  rows: number;
}

const CUT = "TRUNCATED"; // the severity of the notice where the recording was cut

/**
 * The results of a script that runs, from the lines of its stream. A stream that broke is read again `from` here: `begin`
 * says so, as all lines but those of rows come again.
 */
export class ResultStream {
  /** The number of the next row over all results. */
  from = 0;
  /** Whether the script has ended, and all lines have come. */
  isOver = false;
  private readonly results = new Map<number, Growing>();
  private readonly ended = new Set<number>();

  get progress(): Progress {
    return { done: this.ended.size, rows: this.from };
  }

  /** Begin to read a stream, the first or another one. */
  begin(): void {
    for (const result of this.results.values()) result.forgetNotices();
  }

  /** Take a line. Throws StreamCut if the gateway ended the stream before the script. */
  add(line: ResultLine): void {
    switch (line.type) {
      case "columns":
        this.at(line.result).describe(line.columns, line.fields);
        break;
      case "rows":
        this.at(line.result).append(line.row, line.rows, line.masked);
        this.from = line.next_row;
        break;
      case "notice":
        this.at(line.result).note({ severity: line.severity, text: line.text });
        break;
      case "done":
        this.ended.add(line.result);
        this.at(line.result).close(line.tag);
        break;
      case "error":
        this.results.get(line.result)?.fail();
        break;
      case "end":
        this.finish(line.truncated);
        break;
      case "cut":
        throw new StreamCut(line.reason);
    }
  }

  /** Return the results so far, in order. One that has not changed since is the same object, rows are in the same array. */
  shown(): ShownResult[] {
    return [...this.results.values()].map((result) => result.shown());
  }

  private at(index: number): Growing {
    const known = this.results.get(index);
    if (known) return known;
    const made = new Growing(index + 1);
    this.results.set(index, made);
    return made;
  }

  private finish(isTruncated: boolean): void {
    const results = [...this.results.values()];
    for (const result of results) result.close();
    if (isTruncated && !results.some((result) => result.isTruncated)) results.at(-1)?.truncate();
    this.isOver = true;
  }
}

/** The gateway ended a stream before the script, for this reason. */
export class StreamCut extends Error {}

const OPEN = { isTruncated: false, isFailed: false, isOpen: true };

/** A result that gains rows. */
class Growing {
  private value: ShownResult;

  constructor(number: number) {
    const empty = { columns: [], fields: [], rows: [], notices: [], incompleteFrom: null };
    this.value = { ...empty, number, masks: new MaskFinder(null, []), tag: "", ...OPEN };
  }

  get isTruncated(): boolean {
    return this.value.isTruncated;
  }

  shown(): ShownResult {
    return this.value;
  }

  describe(columns: string[], fields: ResultField[]): void {
    if (this.value.columns.length === 0) this.set({ columns, fields, masks: new MaskFinder(null, fields) });
  }

  append(row: number, rows: Cells[], masked: Pick<MaskedCells, "masks" | "cells">): void {
    if (row !== this.value.rows.length) throw new Error(`row ${this.value.rows.length} is missing in the stream`);
    for (const cells of rows) this.value.rows.push(cells);
    this.value.masks.add(masked);
    this.set({});
  }

  note(notice: Notice): void {
    this.set({ notices: [...this.value.notices, notice] });
    if (notice.severity === CUT) this.truncate();
  }

  forgetNotices(): void {
    if (this.value.notices.length > 0) this.set({ notices: [] });
  }

  truncate(): void {
    this.set({ isTruncated: true });
  }

  close(tag = this.value.tag): void {
    if (this.value.isOpen || tag !== this.value.tag) this.set({ isOpen: false, tag });
  }

  fail(): void {
    this.set({ isOpen: false, isFailed: true });
  }

  private set(part: Partial<ShownResult>): void {
    this.value = { ...this.value, ...part };
  }
}

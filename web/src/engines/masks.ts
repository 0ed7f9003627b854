// Which cells of a result were masked, and how: the recording says it for runs of rows in a column.

export interface Mask {
  /** The masking rule; null for the connection's own types. */
  rule: string | null;
  strategy: string;
  info_types: string[];
}

/** A run of masked cells: column, first row, last row, and the place of its mask. */
export type MaskedRun = readonly [number, number, number, number];

export interface MaskedCells {
  masks: Mask[];
  cells: MaskedRun[];
  /** The first row from which it is not known which cells were masked. */
  incomplete_from: number | null;
}

/** What is known about a column: the target's name of its type, and the mask that all of it has. */
export interface ResultField {
  name: string;
  type: string | null;
  masked: { rule: string | null; strategy: string } | null;
}

/** Finds the mask of a cell. Columns that a rule masks as a whole have it in each cell. */
export class MaskFinder {
  private readonly runs = new Map<number, MaskedRun[]>();

  constructor(
    private readonly masked: MaskedCells | null,
    private readonly fields: readonly ResultField[],
  ) {
    for (const run of masked?.cells ?? []) {
      const runs = this.runs.get(run[0]);
      if (runs) runs.push(run);
      else this.runs.set(run[0], [run]);
    }
    for (const runs of this.runs.values()) runs.sort((one, other) => one[1] - other[1]);
  }

  at(row: number, column: number): Mask | null {
    const run = runAt(this.runs.get(column) ?? [], row);
    const mask = run && this.masked?.masks[run[3]];
    if (mask) return mask;
    const field = this.fields[column]?.masked;
    return field ? { ...field, info_types: [] } : null;
  }

  /** Return the columns that have masked cells, each with its masks. */
  columns(): [string, Mask[]][] {
    return this.fields.flatMap(({ name, masked }, column): [string, Mask[]][] => {
      const places = new Set((this.runs.get(column) ?? []).map((run) => run[3]));
      const masks = [...places].flatMap((place) => this.masked?.masks[place] ?? []);
      if (masks.length === 0 && masked) masks.push({ ...masked, info_types: [] });
      return masks.length > 0 ? [[name, masks]] : [];
    });
  }
}

/** Return the run that the row is in; runs are in the order of their first rows, and do not overlap. */
function runAt(runs: readonly MaskedRun[], row: number): MaskedRun | null {
  let [low, high] = [0, runs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((runs[middle]?.[2] ?? 0) < row) low = middle + 1;
    else high = middle;
  }
  const run = runs[low];
  return run && run[1] <= row ? run : null;
}

const NUMERIC =
  /^(?:(?:tiny|small|medium|big)?int\d?|integer|(?:small|big)?serial|numeric|decimal|float\d?|double|real|money|oid)(?![a-z])/i;

/** Return whether values of the type are numbers, which are aligned at their end. */
export function isNumeric(type: string | null): boolean {
  return type !== null && NUMERIC.test(type) && !type.endsWith("[]");
}

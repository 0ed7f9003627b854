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
  private readonly masks: Mask[] = [];
  private readonly places = new Map<string, number>(); // of masks, by what they say
  private readonly ofFields: (Mask | null)[]; // the same object for each cell, so that a cell is not drawn again
  private readonly used = new Map<number, Set<number>>(); // places of a column's masks

  constructor(
    masked: Pick<MaskedCells, "masks" | "cells"> | null,
    private readonly fields: readonly ResultField[],
  ) {
    this.ofFields = fields.map(({ masked }) => (masked ? { ...masked, info_types: [] } : null));
    if (masked) this.add(masked);
  }

  /** Add the masked cells of further rows, which come after all rows before. */
  add({ masks, cells }: Pick<MaskedCells, "masks" | "cells">): void {
    const places = masks.map((mask) => this.placeOf(mask));
    for (const [column, first, last, mask] of [...cells].sort((one, other) => one[1] - other[1])) {
      this.addRun([column, first, last, places[mask] ?? -1]);
    }
  }

  at(row: number, column: number): Mask | null {
    const run = runAt(this.runs.get(column) ?? [], row);
    const mask = run && this.masks[run[3]];
    return mask ?? this.ofFields[column] ?? null;
  }

  /** Return the columns that have masked cells, each with its masks. */
  columns(): [string, Mask[]][] {
    return this.fields.flatMap(({ name, masked }, column): [string, Mask[]][] => {
      const masks = [...(this.used.get(column) ?? [])].flatMap((place) => this.masks[place] ?? []);
      if (masks.length === 0 && masked) masks.push({ ...masked, info_types: [] });
      return masks.length > 0 ? [[name, masks]] : [];
    });
  }

  private placeOf(mask: Mask): number {
    const key = JSON.stringify([mask.rule, mask.strategy, mask.info_types]);
    const known = this.places.get(key);
    if (known !== undefined) return known;
    this.places.set(key, this.masks.length);
    return this.masks.push(mask) - 1;
  }

  /** Rows that come in pieces are one run all the same. */
  private addRun(run: MaskedRun): void {
    const [column, first, last, place] = run;
    const runs = this.runs.get(column) ?? [];
    if (runs.length === 0) this.runs.set(column, runs);
    const before = runs.at(-1);
    if (before && before[3] === place && before[2] + 1 === first)
      runs[runs.length - 1] = [column, before[1], last, place];
    else runs.push(run);
    this.used.set(column, (this.used.get(column) ?? new Set()).add(place));
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

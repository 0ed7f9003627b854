// The cells of a grid that are selected: the rectangle between two corners.

export type Place = readonly [row: number, column: number];

export interface Range {
  top: number;
  bottom: number;
  left: number;
  right: number;
}

/** Return the rectangle between two cells, in any order. */
export function rangeOf([row, column]: Place, [otherRow, otherColumn]: Place): Range {
  return {
    top: Math.min(row, otherRow),
    bottom: Math.max(row, otherRow),
    left: Math.min(column, otherColumn),
    right: Math.max(column, otherColumn),
  };
}

export function isWithin({ top, bottom, left, right }: Range, row: number, column: number): boolean {
  return row >= top && row <= bottom && column >= left && column <= right;
}

/** Return the values of a rectangle among rows that are shown in this order; null: as they came. */
export function valuesOf<Value>(
  rows: readonly (readonly Value[])[],
  { top, bottom, left, right }: Range,
  order: ArrayLike<number> | null = null,
): Value[][] {
  const count = Math.min(bottom + 1, order ? order.length : rows.length) - top;
  return Array.from({ length: Math.max(count, 0) }, (_, place) => {
    const row = order ? (order[top + place] ?? -1) : top + place;
    return (rows[row] ?? []).slice(left, right + 1);
  });
}

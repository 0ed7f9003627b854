import { type Dispatch, type SetStateAction, useMemo, useState } from "react";
import type { ResultField } from "../engines/masks";
import type { Cells } from "../engines/results";
import { allRows, findRows, type Order, type Sort, sortRows } from "../engines/row-order";

export interface RowOrder {
  /** Places of the rows that are shown; null while all are shown as they came. */
  order: Order | null;
  sort: Sort | null;
  setSort: Dispatch<SetStateAction<Sort | null>>;
  /** The text that rows must have. */
  words: string;
  setWords: (words: string) => void;
}

/** Find and sort the rows of a result. While more come, `isGrowing`, all are shown as they come. */
export function useRowOrder(rows: Cells[], fields: readonly ResultField[], isGrowing: boolean): RowOrder {
  const [sort, setSort] = useState<Sort | null>(null);
  const [words, setWords] = useState("");
  const count = rows.length; // rows are added to the same array
  const found = useMemo(
    () => (isGrowing || words === "" || count === 0 ? null : findRows(rows, words)),
    [rows, count, words, isGrowing],
  );
  const type = sort ? (fields[sort.column]?.type ?? null) : null;
  const order = useMemo(
    () => (isGrowing || sort === null ? found : sortRows(rows, found ?? allRows(count), sort, type)),
    [rows, count, found, sort, type, isGrowing],
  );
  return { order, sort, setSort, words, setWords };
}

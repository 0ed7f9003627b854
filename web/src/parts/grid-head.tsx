import type { VirtualItem } from "@tanstack/react-virtual";
import { type KeyboardEvent, memo, type PointerEvent, useRef } from "react";
import type { ResultField } from "../engines/masks";
import type { Sort } from "../engines/row-order";
import { common } from "../messages/common";
import styles from "./grid.module.css";
import { MarkedText } from "./marked-text";

interface Props {
  cells: VirtualItem[];
  columns: string[];
  fields: readonly ResultField[];
  sort: Sort | null;
  onSort: (column: number) => void;
  onResize: (column: number, width: number) => void;
  onFit: (column: number) => void;
}

/** The names of the columns. A click sorts by one; its border is dragged to another width, or clicked twice to fit. */
export const GridHead = memo(function GridHead({ cells, columns, fields, sort, onSort, onResize, onFit }: Props) {
  return (
    <div role="row" aria-rowindex={1}>
      {cells.map(({ key, index, start, size }) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the grid, which has the focus
        <div
          key={key}
          role="columnheader"
          aria-colindex={index + 1}
          aria-sort={sort?.column === index ? (sort.isDescending ? "descending" : "ascending") : undefined}
          className={`${styles.cell} ${styles.title}`}
          style={{ left: start, width: size }}
          title={common.grid.sortHint}
          onClick={() => onSort(index)}
        >
          <MarkedText text={columns[index] ?? ""} /> <span className={styles.type}>{fields[index]?.type}</span>
          {sort?.column === index && (
            <span className={styles.arrow} aria-hidden="true">
              {sort.isDescending ? "▼" : "▲"}
            </span>
          )}
          <Border width={size} onResize={(width) => onResize(index, width)} onFit={() => onFit(index)} />
        </div>
      ))}
    </div>
  );
});

interface BorderProps {
  width: number;
  onResize: (width: number) => void;
  onFit: () => void;
}

/** The border behind a column, which a pointer moves. */
function Border({ width, onResize, onFit }: BorderProps) {
  const from = useRef<{ x: number; width: number } | null>(null);
  const begin = (event: PointerEvent) => {
    event.preventDefault(); // which would select text
    event.currentTarget.setPointerCapture(event.pointerId);
    from.current = { x: event.clientX, width };
  };
  const move = ({ clientX }: PointerEvent) => {
    if (from.current) onResize(from.current.width + clientX - from.current.x);
  };
  const end = () => {
    from.current = null;
  };
  return (
    <span
      className={styles.border}
      aria-hidden="true"
      onPointerDown={begin}
      onPointerMove={move}
      onPointerUp={end}
      onPointerCancel={end}
      onClick={(event) => event.stopPropagation()} // a click on the column sorts
      onDoubleClick={onFit}
    />
  );
}

const WIDTH_STEP = 24; // pixels for each key

/** Do what a key with Alt and Shift does to the column of the cursor. Return whether it is such a key. */
export function changeColumn(
  { key, altKey, shiftKey }: KeyboardEvent,
  column: number,
  width: number,
  {
    sort,
    onSort,
    onResize,
    onFit,
  }: Pick<Props, "onResize" | "onFit"> & {
    sort: Sort | null;
    onSort: (sort: Sort | null) => void;
  },
): boolean {
  if (!altKey || !shiftKey) return false;
  if (key === "ArrowLeft") onResize(column, width - WIDTH_STEP);
  else if (key === "ArrowRight") onResize(column, width + WIDTH_STEP);
  else if (key === "Enter") onFit(column);
  else if (key === "ArrowUp" || key === "ArrowDown") {
    const isDescending = key === "ArrowDown";
    const isSame = sort?.column === column && sort.isDescending === isDescending;
    onSort(isSame ? null : { column, isDescending });
  } else return false;
  return true;
}

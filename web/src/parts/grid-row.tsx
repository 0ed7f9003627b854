import type { VirtualItem } from "@tanstack/react-virtual";
import { memo } from "react";
import { isNumeric, type Mask, type MaskFinder, type ResultField } from "../engines/masks";
import type { Cells } from "../engines/results";
import { common } from "../messages/common";
import styles from "./grid.module.css";
import { MarkedText } from "./marked-text";

const LONGEST = 500; // characters of a value that a cell shows; the rest is said

interface Props {
  grid: string;
  /** The place among the rows that are shown, and among those of the result. */
  row: number;
  source: number;
  top: number;
  cells: VirtualItem[];
  values: Cells;
  fields: readonly ResultField[];
  masks: MaskFinder | null;
  /** The first and the last column that are selected; -1 if none is. */
  left: number;
  right: number;
  /** The column of the cursor; -1 if it is in another row. */
  current: number;
}

/** A row of a grid, drawn again only if something in it changes: a grid that is scrolled has only its new rows to draw. */
export const GridRow = memo(function GridRow(props: Props) {
  const { grid, row, source, top, cells, values, fields, masks, left, right, current } = props;
  return (
    <div role="row" aria-rowindex={row + 2} className={styles.row} style={{ top }}>
      {cells.map(({ key, index, start, size }) => (
        <div
          key={key}
          id={cellId(grid, row, index)}
          role="gridcell"
          aria-colindex={index + 1}
          className={isNumeric(fields[index]?.type ?? null) ? NUMBER : styles.cell}
          aria-selected={index >= left && index <= right}
          data-current={index === current ? "" : undefined}
          style={{ left: start, width: size }}
        >
          <Cell value={values[index] ?? null} mask={masks?.at(source, index) ?? null} />
        </div>
      ))}
    </div>
  );
});

const NUMBER = `${styles.cell} ${styles.number}`;

export function cellId(grid: string, row: number, column: number): string {
  return `${grid}-${row}-${column}`;
}

/** A value; one that was masked has a bar below it, and says how. */
const Cell = memo(function Cell({ value, mask }: { value: string | null; mask: Mask | null }) {
  return (
    <Masked mask={mask}>
      <Value value={value} longest={LONGEST} />
    </Masked>
  );
});

export function Masked({ mask, children }: { mask: Mask | null; children: React.ReactNode }) {
  if (mask === null) return children;
  return (
    <span className={styles.masked} title={common.maskedBy(mask.rule, mask.strategy, mask.info_types)}>
      {children}
      <span className="visually-hidden"> {common.masked}</span>
    </span>
  );
}

export function Value({ value, longest }: { value: string | null; longest: number }) {
  if (value === null) return <span className={styles.none}>{common.noValue}</span>;
  if (value.length <= longest) return <MarkedText text={value} />;
  return (
    <>
      <MarkedText text={value.slice(0, longest)} />{" "}
      <span className={styles.none}>{common.characters(value.length)}</span>
    </>
  );
}

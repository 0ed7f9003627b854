import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useRef, useState } from "react";
import { isNumeric, type Mask, type ResultField } from "../engines/masks";
import { common } from "../messages/common";
import styles from "./grid.module.css";
import { MarkedText } from "./marked-text";

interface Props {
  label: string;
  columns: string[];
  rows: (string | null)[][];
  /** What is known about the columns: their types. */
  fields?: readonly ResultField[];
  /** Return how a cell was masked, if it was. */
  maskAt?: (row: number, column: number) => Mask | null;
}

const ROW = 28;
const NARROWEST = 80;
const WIDEST = 320;
const CHARACTER = 8; // pixels of one in the mono font
const LOOKED_AT = 50; // rows whose values decide how wide a column is
const LONGEST = 500; // characters of a value that a cell shows; the rest is said
const STEPS: Record<string, [number, number]> = {
  ArrowDown: [1, 0],
  ArrowUp: [-1, 0],
  ArrowRight: [0, 1],
  ArrowLeft: [0, -1],
  PageDown: [20, 0],
  PageUp: [-20, 0],
};

/** Rows and columns of any number: only the cells in view exist. Arrow keys, Page, Home and End move the cursor. */
export function Grid({ label, columns, rows, fields = [], maskAt = () => null }: Props) {
  const scroll = useRef<HTMLDivElement>(null);
  const [cursor, setCursor] = useState<[number, number]>([0, 0]);
  const down = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW,
    overscan: 4,
    scrollPaddingStart: ROW,
  });
  const across = useVirtualizer({
    horizontal: true,
    count: columns.length,
    getScrollElement: () => scroll.current,
    estimateSize: (index) => widthOf(`${columns[index] ?? ""} ${fields[index]?.type ?? ""}`, rows, index),
    overscan: 2,
  });
  const move = (event: KeyboardEvent) => {
    const step = STEPS[event.key];
    const whole = event.ctrlKey || event.metaKey;
    let next: [number, number];
    if (step) next = [cursor[0] + step[0], cursor[1] + step[1]];
    else if (event.key === "Home") next = [whole ? 0 : cursor[0], 0];
    else if (event.key === "End") next = [whole ? rows.length - 1 : cursor[0], columns.length - 1];
    else return;
    event.preventDefault();
    const row = Math.min(Math.max(next[0], 0), Math.max(rows.length - 1, 0));
    const column = Math.min(Math.max(next[1], 0), Math.max(columns.length - 1, 0));
    setCursor([row, column]);
    down.scrollToIndex(row);
    across.scrollToIndex(column);
  };
  const width = across.getTotalSize();
  const cells = across.getVirtualItems();
  return (
    <div
      ref={scroll}
      role="grid"
      aria-label={label}
      aria-rowcount={rows.length + 1}
      aria-colcount={columns.length}
      aria-activedescendant={rows.length ? cellId(label, cursor) : undefined}
      tabIndex={0}
      onKeyDown={move}
      className={styles.grid}
      style={{ height: Math.min(rows.length + 1, 16) * ROW + 2 }}
    >
      <div role="rowgroup" className={styles.head} style={{ width }}>
        <div role="row" aria-rowindex={1}>
          {cells.map((column) => (
            <div
              key={column.key}
              role="columnheader"
              aria-colindex={column.index + 1}
              className={styles.cell}
              style={{ left: column.start, width: column.size }}
            >
              <MarkedText text={columns[column.index] ?? ""} />{" "}
              <span className={styles.type}>{fields[column.index]?.type}</span>
            </div>
          ))}
        </div>
      </div>
      <div role="rowgroup" style={{ position: "relative", width, height: down.getTotalSize() }}>
        {down.getVirtualItems().map((row) => (
          <div key={row.key} role="row" aria-rowindex={row.index + 2} className={styles.row} style={{ top: row.start }}>
            {cells.map((column) => (
              <div
                key={column.key}
                id={cellId(label, [row.index, column.index])}
                role="gridcell"
                aria-colindex={column.index + 1}
                className={`${styles.cell} ${isNumeric(fields[column.index]?.type ?? null) ? styles.number : ""}`}
                data-current={cursor[0] === row.index && cursor[1] === column.index ? "" : undefined}
                style={{ left: column.start, width: column.size }}
              >
                <Cell value={rows[row.index]?.[column.index] ?? null} mask={maskAt(row.index, column.index)} />
              </div>
            ))}
          </div>
        ))}
      </div>
    </div>
  );
}

/** A value; one that was masked has a bar below it, and says how. */
function Cell({ value, mask }: { value: string | null; mask: Mask | null }) {
  if (mask === null) return <Value value={value} />;
  return (
    <span className={styles.masked} title={common.maskedBy(mask.rule, mask.strategy, mask.info_types)}>
      <Value value={value} />
      <span className="visually-hidden"> {common.masked}</span>
    </span>
  );
}

function Value({ value }: { value: string | null }) {
  if (value === null) return <span className={styles.none}>{common.noValue}</span>;
  if (value.length <= LONGEST) return <MarkedText text={value} />;
  return (
    <>
      <MarkedText text={value.slice(0, LONGEST)} />{" "}
      <span className={styles.none}>{common.characters(value.length)}</span>
    </>
  );
}

function widthOf(name: string, rows: (string | null)[][], column: number): number {
  let longest = name.length;
  for (const row of rows.slice(0, LOOKED_AT)) longest = Math.max(longest, row[column]?.length ?? 4);
  return Math.min(Math.max(longest * CHARACTER + 24, NARROWEST), WIDEST);
}

function cellId(label: string, [row, column]: [number, number]): string {
  return `${label.replace(/\W+/g, "-")}-${row}-${column}`;
}

import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type ClipboardEvent,
  type KeyboardEvent,
  type MouseEvent,
  useCallback,
  useId,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { toTsv } from "../engines/csv";
import { isWithin, type Place, rangeOf, valuesOf } from "../engines/grid-range";
import type { MaskFinder, ResultField } from "../engines/masks";
import type { Cells } from "../engines/results";
import { nextSort } from "../engines/row-order";
import { common } from "../messages/common";
import { Button } from "./button";
import styles from "./grid.module.css";
import { changeColumn, GridHead } from "./grid-head";
import { cellId, GridRow } from "./grid-row";
import { MarkedText } from "./marked-text";
import { RowRecord } from "./row-record";
import { Search } from "./search";
import { type RowOrder, useRowOrder } from "./use-row-order";

interface Props {
  label: string;
  columns: string[];
  rows: Cells[];
  /** What is known about the columns: their types. */
  fields?: readonly ResultField[];
  /** Which cells were masked, by their places in `rows`. */
  masks?: MaskFinder | null;
  /** Whether more rows can come. */
  isGrowing?: boolean;
}

const ROW = 28;
const SMALLEST = 40; // of a column that a user makes narrower
const NARROWEST = 80;
const WIDEST = 320;
const LARGEST = 2_000;
const CHARACTER = 8; // pixels of one in the mono font
const LOOKED_AT = 50; // rows whose values decide how wide a column is
const FITTED = 10_000; // rows whose values decide it when a user asks for it
const NO_FIELDS: never[] = [];
const STEPS: Record<string, [number, number]> = {
  ArrowDown: [1, 0],
  ArrowUp: [-1, 0],
  ArrowRight: [0, 1],
  ArrowLeft: [0, -1],
  PageDown: [20, 0],
  PageUp: [-20, 0],
};

/**
 * Rows and columns of any number: only the cells in view exist. Arrow keys, Page, Home, End and clicks move the cursor;
 * with Shift they select, Ctrl+A selects all, and Ctrl+C copies what is selected for spreadsheets. Rows are sorted, found,
 * and shown one by one.
 */
export function Grid({ label, columns, rows, fields = NO_FIELDS, masks = null, isGrowing = false }: Props) {
  const id = useId();
  const scroll = useRef<HTMLDivElement>(null);
  const [corner, setCursor] = useState<Place>([0, 0]);
  const [anchor, setAnchor] = useState<Place>([0, 0]); // the other corner of what is selected
  const [isOpen, setOpen] = useState(false); // the row of the cursor is shown whole
  const shown = useRowOrder(rows, fields, isGrowing);
  const { order, sort, setSort } = shown;
  const count = order ? order.length : rows.length;
  const last: Place = [Math.max(count - 1, 0), Math.max(columns.length - 1, 0)];
  const cursor: Place = [Math.min(corner[0], last[0]), corner[1]]; // there can be fewer rows than before
  const selected = rangeOf([Math.min(anchor[0], last[0]), anchor[1]], cursor);
  const down = useVirtualizer({
    count,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW,
    overscan: 2,
    scrollPaddingStart: ROW,
    scrollPaddingEnd: 2 * ROW, // the head is above the first row, and a scroll bar can be below the last one
  });
  const across = useVirtualizer({
    horizontal: true,
    count: columns.length,
    getScrollElement: () => scroll.current,
    estimateSize: (index) => widthOf(titleOf(columns, fields, index), rows, index),
    overscan: 1,
  });
  across.shouldAdjustScrollPositionOnItemSizeChange = () => false; // what is dragged stays under the pointer
  useScrollKept(scroll, down.scrollRect?.height ?? 0, down.scrollOffset ?? 0);

  const sourceOf = (row: number) => (order ? (order[row] ?? 0) : row);
  const select = (to: Place, isExtended: boolean) => {
    setCursor(to);
    if (!isExtended) setAnchor(to);
  };
  const goTo = (next: Place, isExtended: boolean) => {
    const [row, column] = [Math.min(Math.max(next[0], 0), last[0]), Math.min(Math.max(next[1], 0), last[1])];
    select([row, column], isExtended);
    down.scrollToIndex(row);
    across.scrollToIndex(column);
  };
  const resize = useCallback(
    (column: number, width: number) => across.resizeItem(column, Math.min(Math.max(width, SMALLEST), LARGEST)),
    [across],
  );
  const fit = useCallback(
    (column: number) => resize(column, contentWidth(titleOf(columns, fields, column), rows, column, FITTED)),
    [resize, columns, fields, rows],
  );
  const sortBy = useCallback((column: number) => setSort((before) => nextSort(before, column)), [setSort]);
  const move = (event: KeyboardEvent) => {
    const whole = event.ctrlKey || event.metaKey;
    const width = across.measurementsCache[cursor[1]]?.size ?? NARROWEST;
    if (changeColumn(event, cursor[1], width, { sort, onSort: setSort, onResize: resize, onFit: fit })) {
      event.preventDefault();
      return;
    }
    if (event.altKey) return; // keys of the browser
    const next = placeAfter(event.key, whole, cursor, last);
    if (next) goTo(next, event.shiftKey);
    else if (event.key === "Enter" && count > 0) setOpen(true);
    else if (event.key === "a" && whole) {
      setAnchor([0, 0]);
      setCursor(last);
    } else return;
    event.preventDefault();
  };
  const point = (event: MouseEvent) => {
    const place = placeOf(event);
    if (place) select(place, event.shiftKey);
  };
  const open = (event: MouseEvent) => {
    if (placeOf(event)) setOpen(true);
  };
  const keepText = (event: MouseEvent) => {
    if (!event.shiftKey) return; // else the browser selects the text up to here
    event.preventDefault();
    scroll.current?.focus();
  };
  const copy = (event: ClipboardEvent) => {
    if (count === 0 || !document.getSelection()?.isCollapsed) return; // part of a cell's text is copied as it is
    event.preventDefault();
    event.clipboardData.setData("text/plain", toTsv(valuesOf(rows, selected, order)));
  };
  const width = across.getTotalSize();
  const cells = across.getVirtualItems();
  const source = sourceOf(cursor[0]);
  return (
    <div className={styles.frame}>
      {rows.length > 0 && <Tools shown={shown} isGrowing={isGrowing} onView={count > 0 ? () => setOpen(true) : null} />}
      <div
        ref={scroll}
        role="grid"
        aria-label={label}
        aria-describedby={`${id}-keys`}
        aria-rowcount={count + 1}
        aria-colcount={columns.length}
        aria-multiselectable
        aria-activedescendant={count ? cellId(id, ...cursor) : undefined}
        tabIndex={0}
        onKeyDown={move}
        onMouseDown={keepText}
        onClick={point}
        onDoubleClick={open}
        onCopy={copy}
        className={styles.grid}
        style={{ height: Math.min(rows.length + 1, 16) * ROW + 2 }}
      >
        <div role="rowgroup" className={styles.head} style={{ width }}>
          <GridHead
            cells={cells}
            columns={columns}
            fields={fields}
            sort={sort}
            onSort={sortBy}
            onResize={resize}
            onFit={fit}
          />
        </div>
        <div role="rowgroup" style={{ position: "relative", width, height: down.getTotalSize() }}>
          {down.getVirtualItems().map(({ index, start }) => {
            const isSelected = isWithin(selected, index, selected.left);
            return (
              <GridRow
                key={index}
                grid={id}
                row={index}
                source={sourceOf(index)}
                top={start}
                cells={cells}
                values={rows[sourceOf(index)] ?? NO_FIELDS}
                fields={fields}
                masks={masks}
                left={isSelected ? selected.left : -1}
                right={isSelected ? selected.right : -1}
                current={index === cursor[0] ? cursor[1] : -1}
              />
            );
          })}
        </div>
      </div>
      <Order shown={shown} columns={columns} count={count} all={rows.length} isGrowing={isGrowing} />
      <p id={`${id}-keys`} hidden>
        {common.grid.keys}
      </p>
      <RowRecord
        isOpen={isOpen && count > 0}
        onClose={() => setOpen(false)}
        row={cursor[0]}
        count={count}
        columns={columns}
        values={rows[source] ?? NO_FIELDS}
        maskAt={(column) => masks?.at(source, column) ?? null}
        onMove={(row) => goTo([row, cursor[1]], false)}
      />
    </div>
  );
}

/** What is done with all rows: find some, or view one. */
function Tools({ shown, isGrowing, onView }: { shown: RowOrder; isGrowing: boolean; onView: (() => void) | null }) {
  return (
    <div className={styles.tools}>
      {!isGrowing && <Search label={common.grid.find} value={shown.words} onSearch={shown.setWords} />}
      <Button onPress={onView ?? undefined} isDisabled={onView === null}>
        {common.grid.viewRow}
      </Button>
    </div>
  );
}

interface OrderProps {
  shown: RowOrder;
  columns: string[];
  count: number;
  all: number;
  isGrowing: boolean;
}

/** Says which rows are shown, and in which order, if it is not all as they came. */
function Order({ shown: { sort, setSort, words }, columns, count, all, isGrowing }: OrderProps) {
  return (
    <div role="status" className={styles.order}>
      {words !== "" && !isGrowing && (
        <span>{count > 0 ? common.rowsOf(count, all) : <MarkedText text={common.grid.noRows(words)} />}</span>
      )}
      {sort && (
        <>
          <MarkedText text={common.grid.sorted(columns[sort.column] ?? "", sort.isDescending)} />
          {isGrowing && <span>{common.grid.waits}</span>}
          <Button kind="quiet" onPress={() => setSort(null)}>
            {common.grid.unsort}
          </Button>
        </>
      )}
    </div>
  );
}

/** Scroll to where it was when a grid is seen again: some browsers forget it for what is hidden, as in another tab. */
function useScrollKept(scroll: React.RefObject<HTMLDivElement | null>, height: number, offset: number) {
  const isSeen = height > 0;
  // biome-ignore lint/correctness/useExhaustiveDependencies: only when it is seen again
  useLayoutEffect(() => {
    if (isSeen && offset > 0 && scroll.current) scroll.current.scrollTop = offset; // which lays out the page
  }, [isSeen]);
}

/** Return where a key moves the cursor, also beyond the last cell; null if it does not move it. */
function placeAfter(key: string, whole: boolean, [row, column]: Place, last: Place): Place | null {
  const step = STEPS[key];
  if (step) return [row + step[0], column + step[1]];
  if (key === "Home") return [whole ? 0 : row, 0];
  return key === "End" ? [whole ? last[0] : row, last[1]] : null;
}

function placeOf(event: MouseEvent): Place | null {
  const cell = (event.target as Element).closest('[role="gridcell"]');
  if (!cell) return null;
  const row = Number(cell.parentElement?.getAttribute("aria-rowindex")) - 2;
  return [row, Number(cell.getAttribute("aria-colindex")) - 1];
}

function titleOf(columns: string[], fields: readonly ResultField[], index: number): string {
  return `${columns[index] ?? ""} ${fields[index]?.type ?? ""}`;
}

function widthOf(title: string, rows: Cells[], column: number): number {
  return Math.min(Math.max(contentWidth(title, rows, column, LOOKED_AT), NARROWEST), WIDEST);
}

function contentWidth(title: string, rows: Cells[], column: number, lookedAt: number): number {
  let longest = title.length;
  const count = Math.min(rows.length, lookedAt);
  for (let row = 0; row < count; row += 1) longest = Math.max(longest, rows[row]?.[column]?.length ?? 4);
  return longest * CHARACTER + 24;
}

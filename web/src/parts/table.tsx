import { memo, type ReactNode } from "react";
import type { ChoosableColumn } from "../engines/columns";
import styles from "./table.module.css";

export interface Column<Row> {
  title: string;
  cell: (row: Row) => ReactNode;
}

/** A column of a list whose columns can be chosen. */
export type ListColumn<Row> = Column<Row> & ChoosableColumn;

interface Props<Row> {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  keyOf: (row: Row) => string;
}

const MOST_NARROW = 5; // columns that a window has room for beside the menu

/** A dense list. Without room for its columns each row becomes a block, with the column's title before each cell. */
export function Table<Row>({ label, columns, rows, keyOf }: Props<Row>) {
  return (
    <div className={`${styles.frame} ${columns.length > MOST_NARROW ? styles.many : ""}`}>
      <table className={styles.table} aria-label={label}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.title} scope="col">
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <TableRow key={keyOf(row)} columns={columns} row={row} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface RowProps<Row> {
  columns: Column<Row>[];
  row: Row;
}

/** Drawn again only if its row or a column is another, so that a long list grows by a page as fast as a short one. */
const TableRow = memo(function TableRow<Row>({ columns, row }: RowProps<Row>) {
  return (
    <tr>
      {columns.map((column) => (
        <td key={column.title} data-title={column.title}>
          {column.cell(row)}
        </td>
      ))}
    </tr>
  );
}, isSameRow) as <Row>(props: RowProps<Row>) => ReactNode;

function isSameRow<Row>(before: RowProps<Row>, now: RowProps<Row>): boolean {
  return (
    before.row === now.row &&
    before.columns.length === now.columns.length &&
    before.columns.every((column, index) => column === now.columns[index])
  );
}

/** Rows of the size that is to come, shown only if loading takes longer than a moment. */
export function Skeleton({ rows = 8 }: { rows?: number }) {
  return (
    <div className={styles.skeleton} aria-hidden="true">
      {Array.from({ length: rows }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: placeholders have no identity
        <div key={index} />
      ))}
    </div>
  );
}

import type { ReactNode } from "react";
import type { Pages } from "../api/pages";
import { common } from "../messages/common";
import { Button } from "./button";
import { Failure } from "./notice";
import { type Column, Skeleton, Table } from "./table";

interface Props<Row> {
  label: string;
  pages: Pages<Row>;
  columns: Column<Row>[];
  keyOf: (row: Row) => string;
  /** What to show instead of an empty list: what would be here, and how to fill it. */
  none: ReactNode;
  /** How many there are, in words. */
  count?: (total: number) => string;
}

/** A list with what belongs to it: a skeleton while it loads, its error, what to do while it is empty, more rows. */
export function List<Row>({ label, pages, columns, keyOf, none, count }: Props<Row>) {
  const { rows, total } = pages;
  return (
    <>
      {pages.error && <Failure error={pages.error} onRetry={pages.retry} />}
      {pages.isPending && <Skeleton />}
      {!pages.isPending && !pages.error && rows.length === 0 && none}
      {count !== undefined && total !== null && rows.length > 0 && (
        <p role="status" className="secondary">
          {count(total)}
        </p>
      )}
      {rows.length > 0 && <Table label={label} columns={columns} rows={rows} keyOf={keyOf} />}
      {pages.hasMore && (
        <Button onPress={pages.loadMore} isDisabled={pages.isLoadingMore}>
          {common.loadMore}
        </Button>
      )}
    </>
  );
}

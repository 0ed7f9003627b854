import { type ReactNode, useState } from "react";
import { type CsvValue, toCsv } from "../../engines/csv";
import { common } from "../../messages/common";
import { Button } from "../../parts/button";
import { Download } from "../../parts/download";
import { Section } from "../../parts/section";
import { type Column, Table } from "../../parts/table";
import { text } from "./messages";

const SHOWN = 10;

interface Props<Row> {
  title: string;
  columns: Column<Row>[];
  rows: Row[];
  keyOf: (row: Row) => string;
  /** The table as a file: names of the columns, and the values of a row. */
  csv: { name: string; columns: string[]; values: (row: Row) => CsvValue[] };
  none?: ReactNode;
}

/** A section with a table of groups: the largest ones first, all on demand, and as a file. */
export function GroupTable<Row>({ title, columns, rows, keyOf, csv, none }: Props<Row>) {
  const [isWhole, setWhole] = useState(false);
  const content = () => toCsv(csv.columns, rows.map(csv.values));
  return (
    <Section
      title={title}
      actions={rows.length > 0 && <Download label={common.downloadCsv} name={csv.name} content={content} />}
    >
      {rows.length === 0 && none}
      {rows.length > 0 && (
        <Table label={title} columns={columns} rows={isWhole ? rows : rows.slice(0, SHOWN)} keyOf={keyOf} />
      )}
      {!isWhole && rows.length > SHOWN && (
        <div>
          <Button onPress={() => setWhole(true)}>{text.showAll(rows.length)}</Button>
        </div>
      )}
    </Section>
  );
}

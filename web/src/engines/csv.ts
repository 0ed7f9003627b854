// Tables as CSV for spreadsheets.

export type CsvValue = string | number | boolean | null;

// A spreadsheet takes a field with one of these at its beginning for a formula, also within quotes.
const FORMULA = /^[=+\-@\t\r]/;
const NUMBER = /^-?\d+(\.\d+)?$/;

/** Return a table as CSV (RFC 4180). A text that a spreadsheet would evaluate gets an apostrophe before it. */
export function toCsv(columns: readonly string[], rows: readonly (readonly CsvValue[])[]): string {
  return [columns, ...rows].map((row) => `${row.map(field).join(",")}\r\n`).join("");
}

/** Return cells as spreadsheets paste them: tabs between them, and the same apostrophe as in CSV. */
export function toTsv(rows: readonly (readonly CsvValue[])[]): string {
  return rows.map((row) => row.map(field).join("\t")).join("\n");
}

function field(value: CsvValue): string {
  const text = value === null ? "" : String(value);
  const safe = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
  return /[",\r\n\t]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

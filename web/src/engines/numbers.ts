// Numbers and sizes in the reader's language.

import { once } from "./once";

const BYTE_UNITS = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"] as const;

const plain = once((language) => new Intl.NumberFormat(language));

export function formatNumber(value: number, language: string): string {
  return plain(language).format(value);
}

/** Return a size in the unit that makes it shortest: "1.5 GB". */
export function formatBytes(bytes: number, language: string): string {
  let [value, unit] = [bytes, 0];
  while (value >= 1_000 && unit < BYTE_UNITS.length - 1) [value, unit] = [value / 1_000, unit + 1];
  const style = { style: "unit", unit: BYTE_UNITS[unit] ?? "byte", unitDisplay: "short" } as const;
  return new Intl.NumberFormat(language, { ...style, maximumFractionDigits: value < 10 ? 1 : 0 }).format(value);
}

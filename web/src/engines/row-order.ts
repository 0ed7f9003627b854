// Which rows of a result are shown, and in which order: places of rows, as the rows themselves are never copied.

import { isNumeric } from "./masks";
import type { Cells } from "./results";

export interface Sort {
  column: number;
  isDescending: boolean;
}

/** Places of rows in the result, in the order in which they are shown. */
export type Order = Uint32Array;

/** Return the next order of a column: ascending, descending, then as the rows came. */
export function nextSort(sort: Sort | null, column: number): Sort | null {
  if (sort?.column !== column) return { column, isDescending: false };
  return sort.isDescending ? null : { column, isDescending: true };
}

/** Return the places of the rows that have this text in a cell, upper and lower case alike. */
export function findRows(rows: readonly Cells[], text: string): Order {
  const pattern = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "iu");
  const places = new Uint32Array(rows.length);
  let count = 0;
  for (let row = 0; row < rows.length; row += 1) {
    if (rows[row]?.some((cell) => cell !== null && pattern.test(cell))) places[count++] = row;
  }
  return places.subarray(0, count);
}

/**
 * Return these places in the order of a column's values: numbers by value if its type is numeric, texts by their code
 * units, so that each reader sees the same order. NULL is last in both directions, equal values stay as they came.
 */
export function sortRows(rows: readonly Cells[], places: Order, sort: Sort, type: string | null): Order {
  const values: Order = places.filter((row) => (rows[row]?.[sort.column] ?? null) !== null);
  const nulls = places.filter((row) => (rows[row]?.[sort.column] ?? null) === null);
  const compare = isNumeric(type) ? byNumber(rows, values, sort.column) : byText(rows, sort.column);
  const direction = sort.isDescending ? -1 : 1;
  values.sort((one, other) => direction * compare(one, other) || one - other);
  const order = new Uint32Array(places.length);
  order.set(values);
  order.set(nulls, values.length);
  return order;
}

/** Return the places of all rows, as they came. */
export function allRows(count: number): Order {
  return Uint32Array.from({ length: count }, (_, row) => row);
}

type Compare = (row: number, otherRow: number) => number;

function byText(rows: readonly Cells[], column: number): Compare {
  return (one, other) => compareTexts(rows[one]?.[column] ?? "", rows[other]?.[column] ?? "");
}

function byNumber(rows: readonly Cells[], places: Order, column: number): Compare {
  const numbers = new Float64Array(rows.length);
  for (const row of places) numbers[row] = numberOf(rows[row]?.[column] ?? "");
  return (one, other) => {
    const [left, right] = [numbers[one] ?? 0, numbers[other] ?? 0];
    if (left < right) return -1;
    if (left > right) return 1;
    const [text, otherText] = [rows[one]?.[column] ?? "", rows[other]?.[column] ?? ""];
    if (text === otherText) return 0;
    if (left === right) return compareDecimals(text, otherText);
    // What is no number, such as a mask or NaN, is after all numbers.
    return Number(Number.isNaN(left)) - Number(Number.isNaN(right)) || compareTexts(text, otherText);
  };
}

/** Return the number that a text has, also with a currency and separators of thousands (`money`); NaN for no number. */
function numberOf(text: string): number {
  if (text === "") return Number.NaN;
  const number = Number(text);
  if (!Number.isNaN(number) || !/^[-(]?\p{Sc}/u.test(text)) return number;
  const amount = Number(text.replace(/[^\d.]/g, ""));
  return /^[-(]/.test(text) ? -amount : amount;
}

const DECIMAL = /^(-?)0*(\d*)(?:\.(\d*?)0*)?$/;

/** Compare numbers of more digits than a binary number has: of equal value there, the digits decide. */
function compareDecimals(one: string, other: string): number {
  const [left, right] = [DECIMAL.exec(one), DECIMAL.exec(other)];
  if (!left || !right) return 0;
  const sign = left[1] === "-" ? -1 : 1;
  const [whole = "", otherWhole = ""] = [left[2], right[2]];
  const size = whole.length - otherWhole.length || compareTexts(whole, otherWhole);
  return sign * (size || compareTexts(left[3] ?? "", right[3] ?? ""));
}

function compareTexts(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

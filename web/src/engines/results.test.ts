import { expect, test } from "vitest";
import { LineSplitter } from "./lines";
import { type ResultLine, ResultStream, StreamCut, shownResult } from "./results";

const HASHED = { rule: "people", strategy: "hash", info_types: [] };
const FOUND = { rule: null, strategy: "replace", info_types: ["CREDIT_CARD"] };
const FIELDS = [
  { name: "id", type: "int4", masked: null },
  { name: "note", type: "text", masked: null },
];
const NONE = { masks: [], cells: [] };
const LINES: ResultLine[] = [
  { type: "columns", result: 0, columns: ["id", "note"], fields: FIELDS },
  { type: "notice", result: 0, severity: "NOTICE", text: "mind" },
  {
    type: "rows",
    result: 0,
    row: 0,
    next_row: 2,
    masked: { masks: [HASHED], cells: [[1, 0, 1, 0]] },
    rows: [
      ["1", "ä€😀"],
      ["2", "b"],
    ],
  },
  { type: "waiting" },
  {
    type: "rows",
    result: 0,
    row: 2,
    next_row: 4,
    masked: {
      masks: [FOUND, HASHED],
      cells: [
        [1, 3, 3, 0],
        [1, 2, 2, 1],
      ],
    },
    rows: [
      ["3", "c"],
      ["4", null],
    ],
  },
  { type: "done", result: 0, tag: "SELECT 4" },
  { type: "done", result: 1, tag: "CREATE TABLE" },
  { type: "columns", result: 2, columns: ["id", "note"], fields: FIELDS },
  { type: "rows", result: 2, row: 0, next_row: 5, masked: NONE, rows: [["9", ""]] },
  { type: "error", result: 2, severity: "ERROR", text: "no" },
  { type: "end", truncated: false },
];
const BYTES = new TextEncoder().encode(LINES.map((line) => `${JSON.stringify(line)}\n`).join(""));

function read(lines: ResultLine[]): ResultStream {
  const stream = new ResultStream();
  stream.begin();
  for (const line of lines) stream.add(line);
  return stream;
}

/** What a page shows, with the mask of each cell. */
function seen(stream: ResultStream) {
  return stream.shown().map(({ masks, ...result }) => ({
    ...result,
    rows: result.rows.map((cells) => [...cells]),
    masked: result.rows.map((cells, row) => cells.map((_, column) => masks.at(row, column)?.strategy ?? null)),
    legend: masks.columns(),
  }));
}

test("the lines of a stream are the results of the statements", () => {
  const stream = read(LINES);
  const [first, second, third] = seen(stream);
  expect(first).toMatchObject({ number: 1, tag: "SELECT 4", notices: [{ severity: "NOTICE", text: "mind" }] });
  expect(first?.rows).toEqual([
    ["1", "ä€😀"],
    ["2", "b"],
    ["3", "c"],
    ["4", null],
  ]);
  expect(first?.masked.map((masks) => masks[1])).toEqual(["hash", "hash", "hash", "replace"]);
  expect(first?.legend).toEqual([["note", [HASHED, FOUND]]]);
  expect(second).toMatchObject({ number: 2, tag: "CREATE TABLE", columns: [], rows: [] });
  expect(third).toMatchObject({ number: 3, tag: "", rows: [["9", ""]] });
  expect(stream.shown().every((result) => !result.isOpen)).toBe(true);
  expect(stream.progress).toEqual({ done: 2, rows: 5 });
  expect(stream.isOver).toBe(true);
});

test.each([1, 2, 3, 5, 16, 61, 256, 1 << 20])("chunks of %i bytes make no difference", (size) => {
  const splitter = new LineSplitter();
  const stream = new ResultStream();
  for (let at = 0; at < BYTES.length; at += size) {
    for (const line of splitter.push(BYTES.subarray(at, at + size))) stream.add(JSON.parse(line) as ResultLine);
  }
  expect(seen(stream)).toEqual(seen(read(LINES)));
});

/** What the gateway sends to who asks from a row on: rows before are left out, all other lines come. */
function linesFrom(from: number): ResultLine[] {
  return LINES.flatMap((line): ResultLine[] => {
    if (line.type !== "rows") return [line];
    const known = line.rows.length - Math.max(0, Math.min(line.rows.length, line.next_row - from));
    if (known === line.rows.length) return [];
    const cells = line.masked.cells.filter((run) => run[2] >= line.row + known);
    return [{ ...line, row: line.row + known, rows: line.rows.slice(known), masked: { ...line.masked, cells } }];
  });
}

test.each(LINES.map((_, broken) => broken))("a stream that breaks after line %i continues without loss", (broken) => {
  const stream = read(LINES.slice(0, broken));
  stream.begin();
  for (const line of linesFrom(stream.from)) stream.add(line);
  expect(seen(stream)).toEqual(seen(read(LINES)));
  expect(stream.progress).toEqual({ done: 2, rows: 5 });
});

test("a result is open until its statement has ended, and only changed ones are new objects", () => {
  const stream = read(LINES.slice(0, 3));
  const [open] = stream.shown();
  expect(open?.isOpen).toBe(true);
  for (const line of LINES.slice(3, 7)) stream.add(line);
  const [closed] = stream.shown();
  expect(closed).not.toBe(open);
  expect(closed?.rows).toBe(open?.rows);
  for (const line of LINES.slice(7, 9)) stream.add(line);
  expect(stream.shown()[0]).toBe(closed);
  expect(stream.shown()[2]?.isOpen).toBe(true);
});

test("attack: a missing row is an error and not a shifted mask", () => {
  const stream = read(LINES.slice(0, 3));
  expect(() => stream.add({ type: "rows", result: 0, row: 3, next_row: 4, masked: NONE, rows: [["x", "y"]] })).toThrow(
    "row 2 is missing",
  );
});

test("the end of what the recording holds is told once", () => {
  const where = read([
    ...LINES.slice(0, 3),
    { type: "notice", result: 0, severity: "TRUNCATED", text: "cut" },
    { type: "end", truncated: true },
  ]);
  expect(where.shown().map((result) => result.isTruncated)).toEqual([true]);
  const somewhere = read([...LINES.slice(0, 9), { type: "end", truncated: true }]);
  expect(somewhere.shown().map((result) => result.isTruncated)).toEqual([false, false, true]);
});

test("a stream that the gateway cuts says why", () => {
  expect(() => read([...LINES.slice(0, 3), { type: "cut", reason: "you are no longer allowed" }])).toThrow(StreamCut);
});

test("an error without rows has no result of its own", () => {
  expect(
    read([
      { type: "error", result: 0, severity: "ERROR", text: "no" },
      { type: "end", truncated: false },
    ]).shown(),
  ).toEqual([]);
});

test("100,000 lines of a row are read at once", () => {
  const stream = new ResultStream();
  stream.add(LINES[0] as ResultLine);
  const began = performance.now();
  for (let row = 0; row < 100_000; row += 1) {
    stream.add({
      type: "rows",
      result: 0,
      row,
      next_row: row + 1,
      masked: { masks: [HASHED], cells: [[1, row, row, 0]] },
      rows: [["1", "x"]],
    });
  }
  expect(performance.now() - began).toBeLessThan(2_000);
  expect(stream.shown()[0]?.masks.at(99_999, 1)).toEqual(HASHED);
});

test("a whole result is shown as it is", () => {
  const result = {
    columns: ["id", "note"],
    fields: FIELDS,
    rows: [["1", "x"]],
    tag: "SELECT 1",
    notices: [],
    truncated: true,
  };
  const masked = { masks: [FOUND], cells: [[1, 0, 0, 0]] as [number, number, number, number][], incomplete_from: 7 };
  const shown = shownResult({ ...result, masked }, 1);
  expect(shown).toMatchObject({ number: 2, isOpen: false, isTruncated: true, incompleteFrom: 7 });
  expect(shown.masks.at(0, 1)).toEqual(FOUND);
});

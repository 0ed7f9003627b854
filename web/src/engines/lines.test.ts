import { expect, test } from "vitest";
import { LineSplitter } from "./lines";

const LINES = ["first", "ä€😀", "x".repeat(5_000), '{"a": "b\\nc"}', "last"];
const BYTES = new TextEncoder().encode(`${LINES.slice(0, 2).join("\n")}\n\n${LINES.slice(2).join("\n")}`);

test.each([1, 2, 3, 4, 5, 7, 64, 1_000, 4_096, 1 << 20])("chunks of %i bytes give the same lines", (size) => {
  const splitter = new LineSplitter();
  const lines: string[] = [];
  for (let at = 0; at < BYTES.length; at += size) lines.push(...splitter.push(BYTES.subarray(at, at + size)));
  expect(lines).toEqual(LINES.slice(0, -1));
  expect(splitter.finish()).toEqual(LINES.slice(-1));
  expect(splitter.finish()).toEqual([]);
});

test("a line comes with the chunk that ends it", () => {
  const splitter = new LineSplitter();
  const encode = (text: string) => new TextEncoder().encode(text);
  expect(splitter.push(encode("a"))).toEqual([]);
  expect(splitter.push(encode("b\nc"))).toEqual(["ab"]);
  expect(splitter.push(encode("\n"))).toEqual(["c"]);
});

test("attack: a line of 64 MiB in small chunks takes time in proportion", () => {
  const splitter = new LineSplitter();
  const chunk = new TextEncoder().encode("x".repeat(16 * 1024));
  const began = performance.now();
  for (let number = 0; number < 4 * 1024; number += 1) splitter.push(chunk);
  expect(splitter.push(new TextEncoder().encode("\n"))[0]).toHaveLength(64 * 1024 * 1024);
  expect(performance.now() - began).toBeLessThan(5_000);
});

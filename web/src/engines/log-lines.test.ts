import { expect, test } from "vitest";
import { addLines } from "./log-lines";

const line = (id: string, second: number) => ({ id, at: `2026-01-01T00:00:0${second}Z` });
const ids = (lines: { id: string }[]) => lines.map(({ id }) => id).join("");

test("the last lines and those of the stream are one list, each once and by time", () => {
  expect(ids(addLines([line("c", 3)], [line("a", 1), line("b", 2), line("c", 3)], 10))).toBe("abc");
});

test("only the newest lines are kept", () => {
  expect(ids(addLines([line("a", 1), line("b", 2)], [line("c", 3)], 2))).toBe("bc");
});

import { expect, test } from "vitest";
import { mustRenew } from "./renewal";

const LIFE = { readAt: 0, expiresAt: 900 };

test.each([
  ["early", 500, 500, false],
  ["in the last third", 500, 700, true],
  ["in the last third, but not used", 0, 700, false],
  ["when it has expired", 500, 900, false],
])("%s", (_, usedAt, now, renews) => {
  expect(mustRenew(LIFE, usedAt, now)).toBe(renews);
});

test("a token without an end is never renewed", () => {
  expect(mustRenew({ readAt: 0, expiresAt: null }, 1, 1_000)).toBe(false);
});

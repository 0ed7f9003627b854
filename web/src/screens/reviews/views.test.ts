import { expect, test } from "vitest";
import { reviewFilters, reviewQuery, reviewSearch } from "./views";

test("the address narrows the list, and what it cannot mean is left out", () => {
  const search = { view: "all", connection: "shop", type: "jit", status: "APPROVED", columns: "state" } as const;
  expect(reviewSearch({ ...search, x: 1 })).toEqual(search);
  expect(reviewSearch({ view: "none", type: "JIT", status: "approved", connection: "" })).toEqual({});
  expect(reviewQuery(search)).toEqual({ connection: "shop", type: "jit", status: "APPROVED" });
});

test("what waits for the user has no other status to choose", () => {
  expect(reviewQuery({ status: "APPROVED", type: "jit" })).toEqual({ waiting_for_me: true, type: "jit" });
  expect(reviewQuery({ view: "mine" })).toEqual({ owner: "self" });
  expect(reviewFilters({})).not.toContain("status");
  expect(reviewFilters({ view: "all" })).toContain("status");
});

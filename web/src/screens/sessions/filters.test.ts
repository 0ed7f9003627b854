import { expect, test } from "vitest";
import { FILTERS, inView, type SessionSearch, sessionQuery, sessionSearch, setFilters } from "./filters";

const ALL: Required<Omit<SessionSearch, "columns" | "search">> = {
  user: "alice@example.com",
  connection: "shop",
  type: "database",
  subtype: "postgres",
  tags: "env=prod,!old",
  verb: "exec",
  status: "done",
  end_reason: "killed",
  review: "APPROVED",
  start_date: "2026-01-31T00:00:00.000Z",
  end_date: "2026-02-01T00:00:00.000Z",
  min_duration: 1.5,
  max_duration: 60,
  refused: "yes",
  masked: "no",
  held: "yes",
  label: ["job:nightly", "team:a:b"],
  metadata: ["ticket:7"],
  correlation_id: "c-1",
  issue: "OPS-7",
};

test("the address has every filter, and the API gets each by its name", () => {
  expect(sessionSearch({ ...ALL, columns: "user", x: 1 })).toEqual({ ...ALL, columns: "user" });
  const { tags, review, refused, masked, held, ...same } = ALL;
  expect(sessionQuery({ ...ALL, columns: "user", search: "drop" })).toEqual({
    ...same,
    search: "drop",
    tag_selector: tags,
    "review.status": review,
    refused: true,
    masked: false,
    held: true,
  });
  expect(new Set(FILTERS)).toEqual(new Set(Object.keys(ALL)));
});

test("what a filter cannot mean is left out", () => {
  const odd = { status: "away", review: "approved", start_date: "soon", min_duration: -1, refused: true };
  expect(sessionSearch({ ...odd, label: ["nightly", ":x", 7], metadata: {}, user: ["a"] })).toEqual({});
  expect(sessionSearch({ min_duration: "90", max_duration: "", label: "job:nightly" })).toEqual({
    min_duration: 90,
    label: ["job:nightly"],
  });
});

test("what is set can be taken away one by one", () => {
  const set = setFilters({ user: "a", label: ["x:1", "y:2"], search: "drop", columns: "user" });
  expect(set).toEqual([
    { name: "user", value: "a", without: { label: ["x:1", "y:2"], search: "drop", columns: "user" } },
    { name: "label", value: "x:1", without: { user: "a", label: ["y:2"], search: "drop", columns: "user" } },
    { name: "label", value: "y:2", without: { user: "a", label: ["x:1"], search: "drop", columns: "user" } },
  ]);
  expect(setFilters({ label: ["x:1"] })).toEqual([{ name: "label", value: "x:1", without: {} }]);
  expect(setFilters(ALL)).toHaveLength(21);
});

test("a view replaces what other views set, and keeps the rest", () => {
  expect(inView("masked", { status: "open", refused: "no", user: "a" })).toEqual({ masked: "yes", user: "a" });
  expect(inView("all", { status: "ready", user: "a" })).toEqual({ user: "a" });
});

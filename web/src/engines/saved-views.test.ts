import { expect, test } from "vitest";
import { LONGEST_NAME, MOST_VIEWS, problemOf, savedViewsOf, withView } from "./saved-views";

test("what is stored is read without what is no view", () => {
  const odd = [
    {
      name: " Nightly ",
      search: { user: "bot@example.com", label: ["job:nightly"], min_duration: 60, deep: { a: 1 } },
    },
    { name: "Nightly", search: {} },
    { name: "", search: {} },
    { name: "x".repeat(LONGEST_NAME + 1), search: {} },
    { name: "huge", search: { search: "x".repeat(5_000) } },
    { name: "listless", search: ["a"] },
    "text",
  ];
  const search = { user: "bot@example.com", label: ["job:nightly"], min_duration: 60 };
  expect(savedViewsOf({ sessions: odd, audit: "none" })).toEqual({
    sessions: [{ name: "Nightly", search }],
    audit: [],
  });
  expect(savedViewsOf(undefined)).toEqual({});
  expect(savedViewsOf([1])).toEqual({});
  const many = Array.from({ length: MOST_VIEWS + 1 }, (_, index) => ({ name: String(index), search: {} }));
  expect(savedViewsOf({ sessions: many }).sessions).toHaveLength(MOST_VIEWS);
});

test("a view is added at the end, or replaces the one of its name", () => {
  const first = withView([], " Open ", { status: "open", search: undefined });
  expect(first).toEqual([{ name: "Open", search: { status: "open" } }]);
  const second = withView(first, "Mine", { user: "me" });
  expect(withView(second, "Open", {})).toEqual([
    { name: "Open", search: {} },
    { name: "Mine", search: { user: "me" } },
  ]);
});

test("views that cannot be stored have a problem", () => {
  const view = (name: string, search = {}) => ({ name, search });
  expect(problemOf([view("a"), view("b")])).toBeNull();
  expect(problemOf([view("a"), view(" ")])).toBe("name");
  expect(problemOf([view("a"), view("a ")])).toBe("taken");
  expect(problemOf(Array.from({ length: MOST_VIEWS + 1 }, (_, index) => view(String(index))))).toBe("many");
  expect(problemOf([view("a", { search: "x".repeat(5_000) })])).toBe("large");
});

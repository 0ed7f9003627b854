import { expect, test } from "vitest";
import { blankDraft, type Draft, isBlank, lastUsed, neighbourOf, nextNumber } from "./drafts";

const draft = (part: Partial<Draft>): Draft => ({
  ...blankDraft({ user: "u", connection: "shop", id: "a", number: 1 }, 0),
  ...part,
});
const RUN = { session: "s", from: 0, to: 1, statements: 1, isOver: true };

test.each<[Partial<Draft>, boolean]>([
  [{}, true],
  [{ values: { id: "1" } }, true],
  [{ script: " " }, false],
  [{ name: "totals" }, false],
  [{ reason: "ticket 1" }, false],
  [{ run: RUN }, false],
])("%j is blank: %s", (part, blank) => {
  expect(isBlank(draft(part))).toBe(blank);
});

test("tabs are numbered after the highest", () => {
  expect(nextNumber([])).toBe(1);
  expect(nextNumber([draft({ number: 3 }), draft({ number: 1 })])).toBe(4);
});

test("the draft that was used last comes first", () => {
  expect(lastUsed([])).toBeUndefined();
  expect(lastUsed([draft({ id: "a", usedAt: 2 }), draft({ id: "b", usedAt: 3 }), draft({ id: "c" })])?.id).toBe("b");
});

test.each([
  [["a", "b", "c"], "b", "c"],
  [["a", "b", "c"], "c", "b"],
  [["a"], "a", undefined],
])("of %j, after closing %s comes %s", (ids, id, next) => {
  expect(neighbourOf(ids, id)).toBe(next);
});

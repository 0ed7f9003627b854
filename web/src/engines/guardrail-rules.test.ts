import { expect, test } from "vitest";
import { actionsOf, blankRule, bodyOf, cut, ruleOf, withType } from "./guardrail-rules";

test("what a type does not use is not sent, though it was typed before", () => {
  const rule = { ...blankRule("deny_words_list"), words: ["drop"], case_sensitive: true, objects: ["pay.*"] };
  expect(bodyOf(rule)).toMatchObject({ words: ["drop"], case_sensitive: true, objects: null });
  const other = bodyOf(withType(rule, "input", "deny_statements"));
  expect(other).toMatchObject({ words: null, case_sensitive: false, objects: ["pay.*"], effects: [] });
});

test("a saved rule is sent back as it was", () => {
  const saved = { type: "max_rows", name: null, most: 10 } as const;
  expect(bodyOf(ruleOf(saved))).toMatchObject({ type: "max_rows", name: null, most: 10, action: "deny" });
});

test("another type takes over the action, if it has that", () => {
  const masks = { ...blankRule("pattern_match"), action: "mask" as const };
  expect(withType(masks, "output", "deny_words_list").action).toBe("mask");
  expect(withType(masks, "output", "max_rows").action).toBe("deny");
  expect(actionsOf("output", "pattern_match")).not.toContain("review");
});

test("positions count characters, also those of two units", () => {
  expect(cut("😀 drop x", [[2, 6]])).toEqual(["drop"]);
});

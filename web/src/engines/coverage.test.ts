import { expect, test } from "vitest";
import { accessByGroup, covers, type GroupRule, tagsOf, uncovered } from "./coverage";

const SHOP = { name: "shop", connection_tags: { stage: "prod", team: "data" } };

test.each([
  ["names it", { connection_names: ["shop"], connection_tags: {} }, true],
  ["has one of its tags", { connection_names: [], connection_tags: { stage: "prod" } }, true],
  ["has a tag that it lacks", { connection_names: [], connection_tags: { stage: "prod", region: "eu" } }, false],
  ["has a tag with another value", { connection_names: [], connection_tags: { stage: "test" } }, false],
  ["has nothing", { connection_names: [], connection_tags: {} }, false],
  ["has an inherited property as a tag", { connection_names: [], connection_tags: { toString: "x" } }, false],
])("a rule that %s", (_, rule, expected) => {
  expect(covers(rule, SHOP)).toBe(expected);
});

test("rows without a key are left out", () => {
  expect(
    tagsOf([
      ["stage", "prod"],
      ["", "x"],
    ]),
  ).toEqual({ stage: "prod" });
});

const LAB = { name: "lab", connection_tags: {} };
const RULES: GroupRule[] = [
  { name: "data", groups: ["dba", "dev"], connection_names: [], connection_tags: { team: "data" } },
  { name: "more", groups: ["dev"], connection_names: ["gone"], connection_tags: {} },
];

test("what each group can use, and what nobody can", () => {
  expect(
    accessByGroup(RULES, [SHOP, LAB]).map(({ group, connections, rules }) => [group, connections, rules.length]),
  ).toEqual([
    ["dba", ["shop"], 1],
    ["dev", ["shop"], 2],
  ]);
  expect(uncovered(RULES, [SHOP, LAB])).toEqual(["lab"]);
});

import { expect, test } from "vitest";
import { fieldsOf } from "./json-schema";

test("fields have their types in words", () => {
  const data = {
    properties: {
      at: { anyOf: [{ format: "date-time", type: "string" }, { type: "null" }], description: "When" },
      verb: { enum: ["connect", "exec"], type: "string" },
      voices: { type: "array", items: { $ref: "#/$defs/Voice" } },
      body: {},
    },
    required: ["at"],
  };
  expect(
    fieldsOf({ properties: { data } }, "data").map(({ name, type, isRequired }) => [name, type, isRequired]),
  ).toEqual([
    ["at", "date-time or null", true],
    ["verb", "connect or exec", false],
    ["voices", "list of Voice", false],
    ["body", "any", false],
  ]);
  expect(fieldsOf({}, "data")).toEqual([]);
});

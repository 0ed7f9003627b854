import { expect, test } from "vitest";
import { indentedJson } from "./json-text";

test.each(['{"a":[1,{"b":null},[]],"c":{},"d":"x, {\\"y\\"}: [","e":true}', "[]", ' [ 1 , "two" ] ', '[{"a": -1.5}]'])(
  "%s is indented as JSON.stringify does",
  (text) => {
    expect(indentedJson(text)).toBe(JSON.stringify(JSON.parse(text), null, 2));
  },
);

test("digits and repeated keys stay as they are", () => {
  expect(indentedJson('{"id":12345678901234567890,"id":1.10}')).toBe(
    '{\n  "id": 12345678901234567890,\n  "id": 1.10\n}',
  );
});

test.each(["", "12", '"text"', "{not json}", "[1", "null"])("%j is no object and no array", (text) => {
  expect(indentedJson(text)).toBeNull();
});

test("attack: deep and large texts are bounded", () => {
  expect(indentedJson(`[${"1,".repeat(100_000)}1]`)).toBeNull();
  expect(indentedJson("[".repeat(2_000) + "]".repeat(2_000))).toBeNull();
  expect(indentedJson("[".repeat(100_000) + "]".repeat(100_000))).toBeNull();
});

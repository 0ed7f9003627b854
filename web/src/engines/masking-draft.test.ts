import { expect, test } from "vitest";
import { needWords, samplesOf } from "./masking-draft";

test("types that no form alone makes sure enough need words", () => {
  const types = [
    { name: "EMAIL_ADDRESS", scores: [0.95, 0.95] },
    { name: "CUSIP", scores: [0.3, 0.3] },
    { name: "PERSON", scores: null },
  ];
  expect(needWords(["EMAIL_ADDRESS", "CUSIP", "PERSON"], types, 0.5)).toEqual(["CUSIP"]);
  expect(needWords(["CUSIP"], types, 0.2)).toEqual([]);
});

test("samples are lines of text and one row", () => {
  expect(
    samplesOf("one\n\ntwo ", [
      ["users.email", "a@b.c"],
      ["", "left out"],
    ]),
  ).toEqual({ texts: ["one", "two "], columns: ["users.email"], rows: [["a@b.c"]] });
  expect(samplesOf("", []).rows).toEqual([]);
});

import { expect, test } from "vitest";
import { chosenColumns, namesOfColumns } from "./columns";

const COLUMNS = [{ name: "connection" }, { name: "user" }, { name: "status" }, { name: "duration", isExtra: true }];
const names = (chosen?: string) => chosenColumns(COLUMNS, chosen).map(({ name }) => name);

test("without a choice all columns are shown but the extra ones", () => {
  expect(names()).toEqual(["connection", "user", "status"]);
});

test("a choice keeps the order of the list and its first column, and ignores what is unknown", () => {
  expect(names("duration,user,x")).toEqual(["connection", "user", "duration"]);
  expect(names("x")).toEqual(["connection"]);
});

test("the address names a choice only if it differs from what is shown anyway", () => {
  expect(namesOfColumns(COLUMNS, ["duration", "user"])).toBe("connection,user,duration");
  expect(namesOfColumns(COLUMNS, ["status", "user"])).toBeUndefined();
  expect(namesOfColumns(COLUMNS, [])).toBe("connection");
});

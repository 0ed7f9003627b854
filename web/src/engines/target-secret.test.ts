import { expect, test } from "vitest";
import { fieldsOf, secretOf } from "./target-secret";

const KEYS = [
  { name: "HOST", is_private: false },
  { name: "PORT", is_private: false },
  { name: "PASS", is_private: true },
];
const STORED = { "envvar:PASS": null, "envvar:HOST": null };

test("fields are in the order of the type, with the values that can be read", () => {
  const fields = fieldsOf(STORED, { HOST: "db.example.com" }, KEYS);
  expect(fields.map(({ name, value, isStored }) => [name, value, isStored])).toEqual([
    ["HOST", "db.example.com", true],
    ["PORT", "", false],
    ["PASS", "", true],
  ]);
});

test("an empty private field keeps its value, an empty readable one is removed", () => {
  expect(secretOf(fieldsOf(STORED, { HOST: "" }, KEYS))).toEqual({ "envvar:PASS": null });
});

test("values are sent in base64 of UTF-8, references as they are", () => {
  const typed = fieldsOf({ "envvar:HOST": null }, { HOST: "dömäne" }, KEYS).map((field) =>
    field.name === "PORT" ? { ...field, value: "_envjson:DB:port" } : field,
  );
  expect(secretOf(typed)).toEqual({ "envvar:HOST": "ZMO2bcOkbmU=", "envvar:PORT": "_envjson:DB:port" });
});

test.each(["_aws:shop:", "_vaultkv2:kv/shop:password", "_identity:aws:eu-central-1"])("%s is a reference", (value) => {
  const typed = fieldsOf({}, {}, KEYS).map((field) => (field.name === "PASS" ? { ...field, value } : field));
  expect(secretOf(typed)).toEqual({ "envvar:PASS": value });
});

test("files of commands stay files", () => {
  expect(secretOf(fieldsOf({ "filesystem:KUBECONFIG": null }, {}, []))).toEqual({ "filesystem:KUBECONFIG": null });
});

test("keys of which there can be any number come after the others", () => {
  const fields = fieldsOf({ "envvar:HEADER_X_API_KEY": null, "envvar:HOST": null }, {}, KEYS);
  expect(fields.map(({ name, isPrivate }) => [name, isPrivate])).toEqual([
    ["HOST", false],
    ["PORT", false],
    ["PASS", true],
    ["HEADER_X_API_KEY", true],
  ]);
});

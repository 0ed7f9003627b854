import { expect, test } from "vitest";
import { type Asset, BLANK, isComplete, type Mapping, type Prompt, promptsOf } from "./template-draft";

const MAPPING: Mapping = { type: "preset", tracker_field: "f1", value: "session.id", description: "" };
const PROMPT: Prompt = {
  tracker_field: "f2",
  label: "Start",
  field_type: "datetime-local",
  required: false,
  description: "",
};
const ASSET: Asset = {
  tracker_field: "f3",
  tracker_object_type: "Server",
  value: "",
  required: false,
  description: "",
};
const DRAFT = { ...BLANK, project_key: "OPS", request_type_id: "10" };

test("a draft is complete once each of its fields has a name and a source", () => {
  expect(isComplete(BLANK)).toBe(false);
  expect(isComplete({ ...DRAFT, mapping_types: { items: [MAPPING] } })).toBe(true);
  expect(isComplete({ ...DRAFT, mapping_types: { items: [{ ...MAPPING, tracker_field: " " }] } })).toBe(false);
  expect(isComplete({ ...DRAFT, prompt_types: { items: [{ ...PROMPT, label: "" }] } })).toBe(false);
  expect(isComplete({ ...DRAFT, cmdb_types: { items: [ASSET] } })).toBe(true);
});

test("prompts and assets without a value are asked for, each field once", () => {
  const cmdb_types = {
    items: [ASSET, { ...ASSET, tracker_field: "f4", value: "db1" }, { ...ASSET, tracker_field: "" }],
  };
  expect(promptsOf({ ...DRAFT, prompt_types: { items: [PROMPT, PROMPT] }, cmdb_types })).toEqual([
    { field: "f2", label: "Start", isTime: true },
    { field: "f3", label: "Server", isTime: false },
  ]);
});

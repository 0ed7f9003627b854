import { expect, test } from "vitest";
import { byFolder, defaultsOf, inOrder, isSshAddress, missing, outputParts, sentValues, splitPath } from "./runbooks";

const text = { description: "", required: false, type: "text" };

test("parameters with an order come first, others stay as they are", () => {
  const metadata = { z: text, b: { ...text, order: 2 }, y: text, a: { ...text, order: 1 }, c: { ...text, order: 2 } };
  expect(inOrder(metadata).map(([name]) => name)).toEqual(["a", "b", "c", "z", "y"]);
});

test("a form begins with the defaults, and sends what is filled in and known", () => {
  const metadata = { days: { ...text, default: "30" }, key: { ...text, type: "file", default: "x" }, note: text };
  expect(defaultsOf(metadata)).toEqual({ days: "30" });
  expect(sentValues(metadata, { days: "7", note: "", gone: "x" })).toEqual({ days: "7" });
});

test("required parameters without a value are missing", () => {
  const metadata = { user: { ...text, required: true }, why: { ...text, required: true, order: 1 }, note: text };
  expect(missing(metadata, { user: "" })).toEqual(["why", "user"]);
  expect(missing(metadata, { user: "ann", why: "0" })).toEqual([]);
});

test("runbooks are grouped by folder, the root first", () => {
  expect(splitPath("/ops/db/a.runbook.sql")).toEqual({ folder: "ops/db", file: "a.runbook.sql" });
  const items = ["/ops/b.runbook.sh", "/a.runbook.sh", "/db/c.runbook.sql", "/ops/d.runbook.sh"].map((name) => ({
    name,
  }));
  expect(byFolder(items).map(({ folder, items }) => [folder, items.length])).toEqual([
    ["", 1],
    ["db", 1],
    ["ops", 2],
  ]);
});

test("parts of an output are as long as their code points", () => {
  const lengths = [
    ["stdout", 2],
    ["stderr", 3],
    ["stdout", 1],
  ] as const;
  expect(outputParts("😀\nerr😀", lengths)).toEqual([
    { stream: "stdout", text: "😀\n" },
    { stream: "stderr", text: "err" },
    { stream: "stdout", text: "😀" },
  ]);
  expect(outputParts("all", null)).toEqual([{ stream: "stdout", text: "all" }]);
  expect(outputParts("", lengths)).toEqual([]);
});

test("addresses of SSH", () => {
  expect(["git@git.example.com:ops/x", "ssh://git@host/x", "SSH://host/x"].map(isSshAddress)).not.toContain(false);
  expect(["https://user@host:1/x", "https://host/a@b:c", "file:///srv/x", ""].map(isSshAddress)).not.toContain(true);
});

import { expect, test } from "vitest";
import { changeOf, everything, isAbout } from "./live-queries";

const A = "0b7e7a52-0000-4000-8000-000000000001";
const B = "0b7e7a52-0000-4000-8000-000000000002";

test("a review changes lists of reviews and sessions, its own page, and the page of its session", () => {
  const change = changeOf("review", JSON.stringify({ id: A, change: "APPROVED", session_id: B }));
  expect(isAbout(change, ["reviews", "waiting"])).toBe(true);
  expect(isAbout(change, ["sessions", {}])).toBe(true);
  expect(isAbout(change, ["review", A])).toBe(true);
  expect(isAbout(change, ["review", B])).toBe(false);
  expect(isAbout(change, ["session", B])).toBe(true);
  expect(isAbout(change, ["session", A])).toBe(false);
  expect(isAbout(change, ["/api/agents", "list", ""])).toBe(false);
});

test("an event without an identifier is about all of its kind", () => {
  const change = changeOf("session", '{"id": null, "change": "ended", "session_id": null}');
  expect(isAbout(change, ["session", A])).toBe(true);
  expect(isAbout(change, ["review", A])).toBe(false);
});

test("an agent changes the state of connections", () => {
  const change = changeOf("agent", JSON.stringify({ id: A, change: "offline", session_id: null }));
  expect(isAbout(change, ["/api/agents", "one", "edge"])).toBe(true);
  expect(isAbout(change, ["connection", "orders"])).toBe(true);
  expect(isAbout(change, ["/api/connections", "one", "orders"])).toBe(false);
});

test("another group or a message that cannot be read is about everything", () => {
  expect(changeOf("login", '{"id": null, "change": "changed"}')).toEqual(everything);
  expect(changeOf("review", "{")).toEqual(everything);
  expect(isAbout(everything, ["reports", "activity"])).toBe(true);
  expect(isAbout(changeOf("login", '{"id": null, "change": "ended"}'), ["reports"])).toBe(false);
});

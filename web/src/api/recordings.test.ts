import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import type { RecordedEvent } from "../engines/replay/recording";

const ORIGIN = "http://localhost";

/** As in a browser, where addresses are relative to the page. */
class PageRequest extends Request {
  constructor(input: RequestInfo | URL, init?: RequestInit) {
    super(typeof input === "string" ? new URL(input, ORIGIN) : input, init);
  }
}

const FIRST: RecordedEvent = [0, "o", "YQ=="];
const SECOND: RecordedEvent = [1, "o", "Yg=="];
let asked: string[] = [];
let recordings: typeof import("./recordings");

/** A gateway whose recordings have two pages. */
async function answer({ url, signal }: Request): Promise<Response> {
  signal.throwIfAborted();
  const { pathname, searchParams } = new URL(url);
  const cursor = searchParams.get("cursor");
  asked.push(`${pathname.split("/").at(-1)} ${cursor ?? "first"}`);
  if (cursor !== null) return Response.json({ event_stream: [SECOND] });
  return Response.json({ event_stream: [FIRST] }, { headers: { "Next-Cursor": "second" } });
}

beforeAll(async () => {
  vi.stubGlobal("Request", PageRequest);
  vi.stubGlobal("fetch", answer);
  recordings = await import("./recordings"); // the client keeps the Request that there is
});

beforeEach(() => {
  asked = [];
});

afterAll(() => {
  vi.unstubAllGlobals();
});

async function read(id: string): Promise<RecordedEvent[]> {
  const events: RecordedEvent[] = [];
  for await (const page of recordings.readEvents(id, new AbortController().signal)) events.push(...page);
  return events;
}

test("all pages of a recording are read", async () => {
  expect(await read("one")).toEqual([FIRST, SECOND]);
  expect(asked).toEqual(["one first", "one second"]);
});

test("a first page that was read ahead is read once", async () => {
  recordings.readAhead("one");
  expect(await read("one")).toEqual([FIRST, SECOND]);
  expect(asked).toEqual(["one first", "one second"]);
});

test("a page that was read ahead serves one reading, of the same recording", async () => {
  recordings.readAhead("one");
  await read("two");
  await read("one");
  expect(asked).toEqual(["one first", "two first", "two second", "one first", "one second"]);
});

test("a page whose reading was given up is read again", async () => {
  recordings.readAhead("one")();
  expect(await read("one")).toEqual([FIRST, SECOND]);
});

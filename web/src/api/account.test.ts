import { afterEach, expect, test, vi } from "vitest";

const ORIGIN = "http://localhost";

/** As in a browser, where addresses are relative to the page. */
class PageRequest extends Request {
  constructor(input: RequestInfo | URL, init?: RequestInit) {
    super(typeof input === "string" ? new URL(input, ORIGIN) : input, init);
  }
}

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("a log-out does not wait for storage that the browser is clearing", async () => {
  vi.useFakeTimers();
  vi.stubGlobal("Request", PageRequest);
  vi.stubGlobal("fetch", async () => Response.json({}));
  vi.stubGlobal("indexedDB", { open: () => ({}) }); // its request is never answered
  const { logOut } = await import("./account");
  const done = vi.fn();
  void logOut().then(done);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(done).toHaveBeenCalledOnce();
});

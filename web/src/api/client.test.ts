import { afterAll, beforeEach, expect, test, vi } from "vitest";

const ORIGIN = "http://localhost";

/** As in a browser, where addresses are relative to the page. */
class PageRequest extends Request {
  constructor(input: RequestInfo | URL, init?: RequestInit) {
    super(typeof input === "string" ? new URL(input, ORIGIN) : input, init);
  }
}

interface Gateway {
  /** The token that writes need. */
  token: string;
  /** Tokens of the writes that came. */
  written: (string | null)[];
  onWrite: () => void;
}

const gateway: Gateway = { token: "", written: [], onWrite: () => {} };

async function answer(input: Request | string): Promise<Response> {
  if (typeof input === "string") return Response.json({ csrf_token: gateway.token });
  const token = input.headers.get("X-CSRF-Token");
  gateway.written.push(token);
  gateway.onWrite();
  return token === gateway.token ? Response.json({}) : Response.json({ message: "no" }, { status: 403 });
}

beforeEach(() => {
  Object.assign(gateway, { token: "new", written: [], onWrite: () => {} });
  vi.stubGlobal("Request", PageRequest);
  vi.stubGlobal("fetch", answer);
});

afterAll(() => {
  vi.unstubAllGlobals();
});

async function logOut(): Promise<unknown> {
  const { api, unwrap } = await import("./client");
  return unwrap(api.POST("/api/logout"));
}

test("a write with the token from before a renewal is sent once more", async () => {
  const { setCsrfToken } = await import("./client");
  setCsrfToken("old");
  await logOut();
  expect(gateway.written).toEqual(["old", "new"]);
});

test("also if the page read the new token while the write was on its way", async () => {
  const { setCsrfToken } = await import("./client");
  setCsrfToken("old");
  gateway.onWrite = () => setCsrfToken("new");
  await logOut();
  expect(gateway.written).toEqual(["old", "new"]);
});

test("a write that is refused for another reason is sent once", async () => {
  const { setCsrfToken } = await import("./client");
  setCsrfToken("new");
  gateway.token = "new";
  vi.stubGlobal("fetch", async (input: Request | string) => {
    if (typeof input === "string") return answer(input);
    gateway.written.push(input.headers.get("X-CSRF-Token"));
    return Response.json({ message: "no" }, { status: 403 });
  });
  await expect(logOut()).rejects.toThrow("no");
  expect(gateway.written).toEqual(["new"]);
});

import { expect, test } from "vitest";
import { loginSearch, nextPath, providerFailure } from "./next";

test.each([
  ["/sessions?status=open", "/sessions?status=open"],
  ["//evil.example/", "/"],
  ["/\\evil.example", "/"],
  ["https://evil.example/", "/"],
  ["javascript:alert(1)", "/"],
  ["/api/logout", "/"],
  ["/sessions?status=open&error=access_denied&error_description=No#top", "/sessions?status=open#top"],
])("the login leads from %s to %s", (next, path) => {
  expect(nextPath(next, "https://gateway.example")).toBe(path);
});

test.each([
  [undefined, ""],
  ["/sessions?status=open", ""],
  ["/?error=access_denied", "access_denied"],
  ["/sessions?error=login_failed&error_description=a%20%26%20b#x", "a & b"],
  [`/?error_description=${"x".repeat(600)}`, "x".repeat(500)],
])("the failure of the provider in %s is %s", (next, failure) => {
  expect(providerFailure(next)).toBe(failure);
});

test("the login of a page that names an organisation is that organisation's", () => {
  expect(loginSearch("/sessions")).toEqual({ next: "/sessions" });
  const next = "/device?user_code=BCDF-GHJK&organization=acme%26co#x";
  expect(loginSearch(next)).toEqual({ next, organization: "acme&co" });
});

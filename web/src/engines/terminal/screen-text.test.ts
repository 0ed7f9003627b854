import { expect, test } from "vitest";
import { cleanTitle, findLinks, pendingReview, webAddress } from "./screen-text";

test.each([
  ["vim notes.txt", "vim notes.txt"],
  ["  a \n\t b ", "a b"],
  ["safe\u202etxt.exe\u0007\u001b[31m", "safetxt.exe[31m"],
  ["\u200b\u2066", ""],
  ["x".repeat(5_000), `${"x".repeat(39)}…`],
  ["👍".repeat(41), `${"👍".repeat(39)}…`],
])("the title %j becomes %j", (title, shown) => {
  expect(cleanTitle(title)).toBe(shown);
});

test.each([
  ["see https://postern.example/a?b=c#d.", ["https://postern.example/a?b=c#d"]],
  ["(http://localhost:7480/x) and HTTP", ["http://localhost:7480/x"]],
  ["https://en.example/wiki/Gate_(wall), more", ["https://en.example/wiki/Gate_(wall)"]],
  ["javascript:alert(1) file:///etc/passwd ftp://x/y", []],
  ["https://a.example\u202e/x", ["https://a.example"]],
  ["https://", []],
])("addresses in %j", (line, urls) => {
  const links = findLinks(line);
  expect(links.map(({ url }) => url)).toEqual(urls);
  for (const { start, end, url } of links) expect(line.slice(start, end)).toBe(url);
});

test.each(["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "//evil.example", "x"])(
  "%s is not an address of the web",
  (text) => {
    expect(webAddress(text)).toBeNull();
  },
);

test("the address that opens is the one that is shown", () => {
  expect(webAddress("https://bank.example@evil.example/")?.host).toBe("evil.example");
});

test("the review that the gateway waits for is found in its message", () => {
  const id = "0190e5a4-7c11-7abc-8def-0123456789ab";
  expect(pendingReview(`postern: needs a review. Review ${id} is pending until 2026-11-28`)).toBe(id);
  expect(pendingReview("postern: no")).toBeNull();
});

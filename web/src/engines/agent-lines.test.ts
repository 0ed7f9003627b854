import { expect, test } from "vitest";
import { agentLines, hostOf, PLACES } from "./agent-lines";

const setup = { name: "edge", key: "https://k@gw:7444/x", image: "registry.example.com/postern", isEmbedded: false };

test.each(PLACES)("the lines for %s have the key once, and never as an argument", (place) => {
  const lines = agentLines(place, setup);
  expect(lines.split(setup.key)).toHaveLength(2);
  const line = lines.split("\n").find((line) => line.includes(setup.key)) ?? "";
  expect(line).toMatch(/^(POSTERN_KEY=)?https:|^stringData:/);
});

test("a hostile name breaks out of nothing", () => {
  for (const place of PLACES) {
    const lines = agentLines(place, { ...setup, name: "x; rm -rf $(y)\n'END'" });
    expect(lines).not.toContain("rm -rf");
    expect(lines).not.toContain("$(y)");
    expect(lines).toContain("x-rm-rf-y-end");
  }
});

test("an agent in an application's container runs the application's command", () => {
  expect(agentLines("docker", { ...setup, isEmbedded: true })).toContain("postern run --name edge -- bin/console");
});

test.each([
  ["https://gateway.example.com:7444", "gateway.example.com:7444"],
  ["postern+tls://[::1]:7443/path", "[::1]:7443"],
  ["gateway:7443", "gateway:7443"],
])("the address of %s is %s", (url, host) => {
  expect(hostOf(url)).toBe(host);
});

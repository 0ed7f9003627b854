import { expect, test } from "vitest";
import { screenOf } from "./objects";

const ROUTES = ["/guardrails", "/guardrails/$name", "/sessions/$id", "/connections", "/sinks/$name/x"];

test.each([
  ["/api/guardrails/no%20drop", "no drop", "update", "/guardrails/no%20drop"],
  ["/api/guardrails", "new one", "create", "/guardrails/new%20one"],
  ["/api/guardrails/gone", "gone", "delete", null],
  ["/api/sessions/7/holds/case", "case", "delete", "/sessions/7"],
  ["/api/connections/shop", "shop", "update", null],
  ["/api/elsewhere/x", "x", "update", null],
  ["postern keys rotate", "", "rotate", null],
  ["/api/guardrails/%zz/../../x", "x", "update", "/guardrails/%25zz"],
])("%s leads to its screen", (http_path, resource, action, screen) => {
  expect(screenOf({ http_path, resource, action }, ROUTES)).toBe(screen);
});

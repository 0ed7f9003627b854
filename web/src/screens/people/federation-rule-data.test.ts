import { expect, test } from "vitest";
import { BLANK, claimsOf, draftOf, type FederationRule, pairsOf, requestOf } from "./federation-rule-data";

const RULE: FederationRule = {
  id: "1",
  name: "deploy",
  description: "",
  service_account: "deployer",
  issuer_url: "https://token.actions.githubusercontent.com",
  audience: "https://gateway.example.com",
  claims: { repository: ["acme/shop", "acme/site"], ref: ["refs/heads/main"] },
  algorithms: ["RS256"],
  jwks: { keys: [] },
  login_duration_seconds: 900,
  allow_admin: false,
  allow_reuse: true,
  managed_by: null,
  created_at: null,
  updated_at: null,
};

test("claims become rows and rows claims", () => {
  expect(claimsOf(pairsOf(RULE.claims))).toEqual(RULE.claims);
  expect(
    claimsOf([
      ["", ""],
      [" ref ", " main "],
    ]),
  ).toEqual({ ref: ["main"] });
  expect(claimsOf([["", "main"]])).toEqual({ "": ["main"] });
});

test("what the form does not show is kept", () => {
  const { id, created_at, updated_at, managed_by, ...body } = RULE;
  expect(requestOf(draftOf(RULE))).toEqual(body);
  expect(requestOf(BLANK)).toMatchObject({ claims: {}, login_duration_seconds: null });
});

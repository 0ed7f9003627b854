import { expect, test } from "vitest";
import { connectionQuery, connectionSearch, tagsOf, withTags } from "./filters";

test("the address narrows the list, and what it cannot mean is left out", () => {
  const search = connectionSearch({ search: "shop", status: "away", tags: "env=prod,team=blue", type: 3, x: "y" });
  expect(search).toEqual({ search: "shop", type: "3", tags: "env=prod,team=blue" });
  expect(connectionQuery(search)).toEqual({ search: "shop", type: "3", tag_selector: "env=prod,team=blue" });
});

test("tags are added and taken away", () => {
  const search = withTags({ status: "online" }, ["env=prod"]);
  expect(search).toEqual({ status: "online", tags: "env=prod" });
  expect(withTags(search, [...tagsOf(search), "team="])).toEqual({ status: "online", tags: "env=prod,team=" });
  expect(withTags(search, [])).toEqual({ status: "online" });
});

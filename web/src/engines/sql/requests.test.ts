import { expect, test } from "vitest";
import { requestPlaceholders, requestSpans } from "./requests";
import { countStatements, statementAt } from "./scan";

const TWO = `# all users
GET /users?name=Al
Accept: text/html

### the next one
// it is new
POST /users

{"name": "Al"}
`;

test("requests are separated by lines of ###", () => {
  expect(requestSpans(TWO).map(({ start, end }) => TWO.slice(start, end))).toEqual([
    "GET /users?name=Al\nAccept: text/html",
    'POST /users\n\n{"name": "Al"}',
  ]);
  expect(requestSpans("### a\n# b\n\n### c")).toEqual([]);
  expect(countStatements(TWO, "httpproxy")).toBe(2);
});

test("the request at the cursor", () => {
  const at = (cursor: number) => TWO.slice(...Object.values(statementAt(TWO, cursor, "httpproxy"))).slice(0, 4);
  expect([at(0), at(20), at(TWO.indexOf('name": '))]).toEqual(["GET ", "GET ", "POST"]);
});

test.each([
  ["GET /users/:id/orders?since=:since", ["id", "since"]],
  ['POST /users\nX-Team: :team\n\n{"a": :name, "b": [:id, :id], "c": " :no"}', ["team", "name", "id"]],
  ["GET http://a:80/b", []],
])("placeholders of %j", (text, names) => {
  expect(requestPlaceholders(text)).toEqual(names);
});

import { expect, test } from "vitest";
import { formatScript } from "./format";
import { placeholdersOf } from "./scan";
import { meanTheSame } from "./tokens";

const ODD: Record<string, string[]> = {
  postgres: [
    "select a,b from t where x=:id and y=:name",
    "select $x$ ; -- no $x$, $$it's$$ from t",
    "select E'a\\' b', 'it''s', U&'d\\0061', B'01' from t",
    "select 1 /* a /* b */ c */ -- d\n from t",
    "select a::text,b::numeric(10,2)[] from t",
    "select j->>'a',j->'b'#>>'{c}' from t where j@>:doc::jsonb and j?'k' and j?|array['a','b'] and j@?'$.x'",
    "select -a,- -1,2*-1,a=-1,1e-5,.5 from t",
    "Select A, b FROM t WHERE Id In (1,2) Order By A",
    "with x as (select 1) insert into t(a,b) select * from x on conflict do nothing returning *",
    'select "Weird ""name""", a[1:2], a[:n] from "Order Items"',
    "create function f() returns int as $body$ begin return 1; end $body$ language plpgsql",
    "do $$ begin x:=1; end $$; select 2",
    "select $1, $2",
    "select a -- first\n, b -- second\nfrom t",
  ],
  mysql: [
    "select `a b`,`c``d` from `order` where x=:id # and so on\n limit 1",
    "select count(*),max(a),f(1) from t",
    "set @v:=1, @@session.sql_mode=''",
    "select \"it\\\"s\", 'it\\'s', _utf8mb4'x' from t where a<=>b and c->>'$.d'=1",
    "select 5--1",
    "insert into t(a,b) values (1,2),(3,4) on duplicate key update a=values(a)",
    "select /*+ MAX_EXECUTION_TIME(1000) */ a /*! , b */ from t -- end",
  ],
};

const ALL = Object.entries(ODD).flatMap(([dialect, scripts]) => scripts.map((script) => [dialect, script] as const));

test.each(ALL)("%s: %j means the same after formatting, or stays", (dialect, script) => {
  const { text } = formatScript(script, dialect);
  if (text === null) return;
  expect(meanTheSame(script, text, dialect)).toBe(true);
  expect(placeholdersOf(text, dialect)).toEqual(placeholdersOf(script, dialect));
  expect(formatScript(text, dialect).text).toBe(text);
});

test("most of them are formatted", () => {
  const formatted = ALL.filter(([dialect, script]) => formatScript(script, dialect).text !== null);
  expect(formatted.length).toBeGreaterThan(ALL.length * 0.8);
});

test("a script gets lines, and its words stay as they are written", () => {
  expect(formatScript("Select a,B from t where x=:id", "postgres").text).toBe(
    "Select\n  a,\n  B\nfrom\n  t\nwhere\n  x = :id",
  );
});

test.each([
  ["postgres", "select 'open", "unreadable"],
  ["postgres", "select 'a'\n'b'", "changed"],
  ["mysql", "select max (a) from t", "changed"],
  ["postgres", `select ${"1,".repeat(30_000)}1`, "long"],
])("%s: %.40j stays: it is %s", (dialect, script, problem) => {
  expect(formatScript(script, dialect)).toEqual({ text: null, problem });
});

test.each(["mssql", "oracledb"])("scripts of %s stay as they are", (dialect) => {
  expect(formatScript("select 1\nGO\nselect 2\n/\n", dialect)).toEqual({ text: null, problem: "language" });
});

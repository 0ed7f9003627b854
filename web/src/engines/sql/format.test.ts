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
  mssql: [
    "select top (5) a,[b c],@d from dbo.[Order Items] where x=:id and n=N'it''s'",
    "declare @a int=1; set @a+=1; select @a as [x]",
    "select 1\nGO\nselect 2\nGO 3\nselect 4",
    "select a from t with (nolock) where b in (select c from #t) option (recompile)",
    "with x as (select 1 as n) merge into t using x on t.a=x.n when matched then update set b=2 output inserted.a;",
    "select a /* b /* c */ d */ from t -- e",
    "select $1.5,0xFF,1e-5,a%2,-1 from t for json path",
    "insert into t(a) output inserted.id values (1),(2)",
    "begin try exec dbo.p @a=1,@b='x'; end try begin catch throw; end catch",
    "select cast(a as decimal(10,2)),convert(varchar(10),b,112) from t cross apply f(t.a) g",
  ],
  oracledb: [
    "select a,:b,q'[it's]' from shop.orders o where o.id=:1 and c=d(+)",
    "select * from (select rownum n,t.* from t) where n<=10 connect by prior a=b start with a is null",
    "merge into t using s on (t.a=s.a) when matched then update set b=1 when not matched then insert (a) values (s.a)",
    "begin x:=1; update t set a=a+1 where b=:c returning a into :d; end;\n/\nselect 1 from dual",
    "select /*+ full(t) */ a from t -- end",
    "select sum(a) over (partition by b order by c rows between 1 preceding and current row) from t",
    "select \"Weird Name\",a||b,2**3,date '2024-01-01',1.5f from t fetch first 5 rows only",
    "create or replace procedure p(a in number) is b number; begin null; end;",
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

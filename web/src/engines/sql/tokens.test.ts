import { expect, test } from "vitest";
import { meanTheSame, tokensOf } from "./tokens";

test.each([
  ["postgres", "a=-1", ["a", "=", "-", "1"]],
  ["postgres", "a@-1", ["a", "@-", "1"]],
  ["postgres", "2*-1", ["2", "*", "-", "1"]],
  ["postgres", "a->>'x'#>'{y}'", ["a", "->>", "'x'", "#>", "'{y}'"]],
  ["postgres", "a::text,:b,c[1:2]", ["a", "::", "text", ",", ":b", ",", "c", "[", "1", ":", "2", "]"]],
  ["postgres", "1e-5-.5", ["1e-5", "-", ".5"]],
  ["postgres", "a$1$b $x$ ' $x$", ["a$1$b", "$x$ ' $x$"]],
  ["postgres", "E'a\\' b' 'it''s'", ["E'a\\' b'", " ", "'it''s'"]],
  ["postgres", 'U&"d" "a""b"', ['U&"d"', '"a""b"']],
  ["mysql", "5--1", ["5", "-", "-", "1"]],
  ["mysql", "@a:=@@b.c<=>'it\\'s'", ["@a", ":=", "@@b", ".", "c", "<=>", "'it\\'s'"]],
  ["mysql", '`a``b`"c\\""', ["`a``b`", '"c\\""']],
  [
    "mysql",
    "count(*), count (*), f (1)",
    "count ( * ) , count _ ( * ) , f ( 1 )".split(" ").map((t) => (t === "_" ? " " : t)),
  ],
  ["mssql", "set @a+=N'it''s',@@x,#t,##u", ["set", "@a", "+=", "N'it''s'", ",", "@@x", ",", "#t", ",", "##u"]],
  ["mssql", '[a]]b]."c d"!<$1.5-0xFF', ["[a]]b]", ".", '"c d"', "!<", "$1.5", "-", "0xFF"]],
  ["mssql", "go\nselect go\n  GO 5 -- x\n", ["\ngo", "select", "go", "\nGO 5"]],
  ["oracledb", "q'[it's]'||nq'{a}b}'||Q'!x!'", ["q'[it's]'", "||", "nq'{a}b}'", "||", "Q'!x!'"]],
  ["oracledb", "a:=:b**2;c(+)^=:1..3f", ["a", ":=", ":b", "**", "2", ";", "c", "(", "+", ")", "^=", ":1", "..", "3f"]],
  ["oracledb", "end;\n/\nselect 4\n/ 2", ["end", ";", "\n/", "select", "4", "/", "2"]],
  ["oracledb", "select /*+ full( t ) */ 1 --+ x", ["select", "/*+ full( t ) */", "1", "\n--+ x"]],
])("code of %s: %s", (dialect, text, code) => {
  expect(tokensOf(text, dialect).code).toEqual(code);
});

test.each([
  ["postgres", "a /* x /* y */ z */ b -- c", ["/*x/*y*/z*/", "--c"]],
  ["mysql", "a /* x /* y */ b # c\n-- d\n", ["/*x/*y*/", "#c", "--d"]],
  ["mssql", "a /* x /* y */ z */ b -- c", ["/*x/*y*/z*/", "--c"]],
  ["oracledb", "a /* x /* y */ b -- c", ["/*x/*y*/", "--c"]],
])("comments of %s: %s", (dialect, text, comments) => {
  expect(tokensOf(text, dialect).comments).toEqual(comments);
});

test.each([
  ["postgres", "select 'a'\n'b'", "select 'a' 'b'"],
  ["postgres", "select - -1", "select --1"],
  ["postgres", "a > = b", "a >= b"],
  ["postgres", "select 1e-5", "select 1e - 5"],
  ["postgres", "select E'a'", "select E 'a'"],
  ["postgres", "select a, -- b\n c", "select a, c -- x"],
  ["postgres", "select 1;; select 2", "select 1; select 2"],
  ["mysql", "select count(*)", "select count (*)"],
  ["mysql", "select 5--1", "select 5 -- 1"],
  ["mssql", "select 1\ngo\nselect 2", "select 1 go\nselect 2"],
  ["mssql", "select 'a' 'b'", "select 'a''b'"],
  ["mssql", "set @a += 1", "set @a + = 1"],
  ["oracledb", "begin null; end;\n/", "begin null; end; /"],
  ["oracledb", "select /*+ full(t) */ a from t", "select a /*+ full(t) */ from t"],
  ["oracledb", "select q'[a]' from t", "select q '[a]' from t"],
])("%s tells apart %j and %j", (dialect, first, second) => {
  expect(meanTheSame(first, second, dialect)).toBe(false);
});

test.each([
  ["postgres", "select a, -- b\n c", "select\n  a,\n  c -- b"],
  ["postgres", "select 'a'\n'b'", "select\n  'a'\n\n  'b'"],
  ["mysql", "select max( a ),f (1)", "select max(a), f(1)"],
  ["mssql", "select [a b],@c\nGO\nselect 1", "select\n  [a b],\n  @c\n  GO\n\nselect 1"],
  ["oracledb", "select a,:b from t where c=d(+)", "select a, :b\nfrom t\nwhere c = d (+)"],
])("%s reads %j and %j alike", (dialect, first, second) => {
  expect(meanTheSame(first, second, dialect)).toBe(true);
});

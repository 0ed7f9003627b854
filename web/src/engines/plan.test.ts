import { expect, test } from "vitest";
import { MaskFinder } from "./masks";
import { type PlanStep, planOf } from "./plan";

const FIELDS = [{ name: "QUERY PLAN", type: "json", masked: null }];

function plan(lines: (string | null)[], column = "QUERY PLAN", masks = new MaskFinder(null, FIELDS)) {
  return planOf({ columns: [column], rows: lines.map((line) => [line]), masks });
}

/** Return a step as one line for each, with those below it indented. */
function lines({ kind, relation, expected, actual, cost, time, share, children }: PlanStep, depth = 0): string[] {
  const part = share === null ? null : Math.round(share * 100);
  const line = [kind, relation, expected, actual, cost, time, part].map((value) => value ?? "-").join("|");
  return ["  ".repeat(depth) + line, ...children.flatMap((child) => lines(child, depth + 1))];
}

const SCAN = { "Node Type": "Seq Scan", "Relation Name": "orders", Alias: "o", "Total Cost": 30, "Plan Rows": 900 };
const LOOKUP = {
  "Node Type": "Index Scan",
  "Relation Name": "customers",
  Alias: "customers",
  "Index Name": "customers_pkey",
  "Total Cost": 0.5,
  "Plan Rows": 1,
};
const JOIN = { "Node Type": "Nested Loop", "Join Type": "Left", "Total Cost": 100, "Plan Rows": 900 };

test("a plan of PostgreSQL is a tree with shares of the cost", () => {
  const found = plan([JSON.stringify([{ Plan: { ...JOIN, Plans: [SCAN, LOOKUP] } }])]);
  expect(found?.hasTimes).toBe(false);
  expect(found?.steps?.flatMap((step) => lines(step))).toEqual([
    "Left Nested Loop|-|900|-|100|-|70",
    "  Seq Scan|orders o|900|-|30|-|30",
    "  Index Scan|customers (customers_pkey)|1|-|0.5|-|1",
  ]);
});

test("times of a plan that ran are those of all loops", () => {
  const ran = (rows: number, time: number, loops: number) => ({
    "Actual Rows": rows,
    "Actual Total Time": time,
    "Actual Loops": loops,
  });
  const join = {
    ...JOIN,
    ...ran(100, 10, 1),
    Plans: [
      { ...SCAN, ...ran(100, 2, 1) },
      { ...LOOKUP, ...ran(1, 0.05, 100) },
    ],
  };
  const found = plan([JSON.stringify([{ Plan: join, "Execution Time": 10.2 }])]);
  expect(found?.hasTimes).toBe(true);
  expect(found?.steps?.flatMap((step) => lines(step))).toEqual([
    "Left Nested Loop|-|900|100|100|10|30",
    "  Seq Scan|orders o|900|100|30|2|20",
    "  Index Scan|customers (customers_pkey)|1|100|0.5|5|50",
  ]);
});

test("a plan of MySQL is a tree of its operations", () => {
  const table = { table_name: "orders", access_type: "ref", key: "customer", rows_examined_per_scan: 3 };
  const block = {
    select_id: 1,
    cost_info: { query_cost: "8.00" },
    ordering_operation: {
      using_filesort: true,
      nested_loop: [
        { table: { table_name: "customers", access_type: "ALL", rows_examined_per_scan: 20 } },
        { table: { ...table, used_key_parts: ["customer_id"], cost_info: { read_cost: "1.50", eval_cost: "0.50" } } },
      ],
    },
  };
  const found = plan([JSON.stringify({ query_block: block })], "EXPLAIN");
  expect(found?.steps?.flatMap((step) => lines(step))).toEqual([
    "query block|-|-|-|8|-|75",
    "  ordering operation|-|-|-|-|-|-",
    "    table: ALL|customers|20|-|-|-|-",
    "    table: ref|orders (customer)|3|-|2|-|25",
  ]);
});

test("a plan of MariaDB that ran has rows and times", () => {
  const table = { table_name: "t", access_type: "ALL", rows: 5, r_rows: 4, r_loops: 2, r_total_time_ms: 1, cost: 0.1 };
  const block = { select_id: 1, r_total_time_ms: 2, nested_loop: [{ table }] };
  const found = plan([JSON.stringify({ query_optimization: { r_total_time_ms: 1 }, query_block: block })], "ANALYZE");
  expect(found?.hasTimes).toBe(true);
  expect(found?.steps?.flatMap((step) => lines(step))).toEqual([
    "query block|-|-|-|-|2|50",
    "  table: ALL|t|5|8|0.1|1|50",
  ]);
});

test("a plan that is a text is its lines", () => {
  const found = plan(["Seq Scan on t", "  Filter: (a = 1)"]);
  expect(found).toEqual({ text: "Seq Scan on t\n  Filter: (a = 1)", steps: null, hasTimes: false });
  expect(plan(['{"other": 1}'])?.steps).toBeNull();
  expect(plan(["Plan hash value: 1", "| 0 | SELECT |"], "PLAN_TABLE_OUTPUT")?.text).toContain("| 0 |");
  expect(plan(["  |--Table Scan(OBJECT:([t]))"], "StmtText")?.text).toContain("Table Scan");
});

test("what is no plan, or is masked, is shown as rows", () => {
  expect(plan([])).toBeNull();
  expect(plan(["Seq Scan"], "query plan of mine")).toBeNull();
  expect(planOf({ columns: ["QUERY PLAN", "b"], rows: [["a", "b"]], masks: new MaskFinder(null, FIELDS) })).toBeNull();
  const mask = { rule: null, strategy: "replace", info_types: ["PERSON"] };
  expect(plan(["Seq Scan"], "QUERY PLAN", new MaskFinder({ masks: [mask], cells: [[0, 0, 0, 0]] }, FIELDS))).toBeNull();
});

test("attack: large, deep and strange plans are bounded", () => {
  expect(plan(["x".repeat(1_000_001)])).toBeNull();
  const many = { "Node Type": "Append", Plans: Array.from({ length: 2_000 }, () => SCAN) };
  expect(plan([JSON.stringify([{ Plan: many }])])?.steps).toBeNull();
  let deep: object = SCAN;
  for (let depth = 0; depth < 2_000; depth += 1) deep = { "Node Type": "Limit", Plans: [deep] };
  expect(plan([JSON.stringify([{ Plan: deep }])])?.steps).toBeNull();
  const strange = { "Node Type": ["x"], "Plan Rows": "1e999", Plans: [null, 1, "x", []] };
  const [step] = plan([JSON.stringify([{ Plan: strange }])])?.steps ?? [];
  expect(step && lines(step)).toEqual(["?|-|-|-|-|-|-"]);
});

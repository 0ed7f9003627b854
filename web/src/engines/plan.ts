// Plans of queries, as databases return them: as a tree if it is JSON of PostgreSQL, MySQL or MariaDB, else as text.

import { indentedJson } from "./json-text";
import type { ShownResult } from "./results";

/** One step of a plan. What a plan does not say is null. */
export interface PlanStep {
  kind: string;
  /** The table that it reads, with its index and its other name. */
  relation: string | null;
  /** Rows that the planner expects, and that came. */
  expected: number | null;
  actual: number | null;
  cost: number | null;
  /** Milliseconds of this step and all below it, over all its repetitions. */
  time: number | null;
  /** The part of the plan's time that this step alone took, from 0 to 1; of its cost if it was not run. */
  share: number | null;
  children: PlanStep[];
}

/** `steps` is null for a plan that is only a text. `hasTimes`: shares are of time, not of cost. */
export interface Plan {
  text: string;
  steps: PlanStep[] | null;
  hasTimes: boolean;
}

// What the only column of a plan is called: by PostgreSQL, MySQL and MariaDB, Oracle's DBMS_XPLAN, and SHOWPLAN_TEXT.
const NAMES = new Set(["QUERY PLAN", "EXPLAIN", "ANALYZE", "PLAN_TABLE_OUTPUT", "StmtText"]);
const LONGEST = 1_000_000; // characters
const MOST_STEPS = 500;

/** Return the plan that a result is; null if it is none, is masked or is too large, so that its rows are shown. */
export function planOf({ columns, rows, masks }: Pick<ShownResult, "columns" | "rows" | "masks">): Plan | null {
  if (columns.length !== 1 || !NAMES.has(columns[0] ?? "") || rows.length === 0) return null;
  if (masks.columns().length > 0) return null;
  let length = 0;
  for (const [line] of rows) length += line?.length ?? 0;
  if (length > LONGEST) return null;
  const text = rows.map(([line]) => line ?? "").join("\n");
  const steps = stepsOf(text);
  if (steps === null) return { text, steps, hasTimes: false };
  const hasTimes = steps.some(({ time }) => time !== null);
  for (const step of steps) share(step, hasTimes, (hasTimes ? step.time : step.cost) ?? 0);
  return { text: indentedJson(text) ?? text, steps, hasTimes };
}

type Fields = Record<string, unknown>;

function stepsOf(text: string): PlanStep[] | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const budget = { left: MOST_STEPS };
  const first = Array.isArray(value) ? value : [value];
  const steps = first.flatMap((plan): (PlanStep | null)[] => {
    if (!isFields(plan)) return [];
    if (isFields(plan.Plan)) return [postgresStep(plan.Plan, budget)];
    return isFields(plan.query_block) ? [mysqlStep("query_block", plan.query_block, budget)] : [];
  });
  return steps.length > 0 && budget.left >= 0 ? steps.filter((step) => step !== null) : null;
}

interface Budget {
  left: number;
}

function postgresStep(fields: Fields, budget: Budget): PlanStep | null {
  budget.left -= 1;
  if (budget.left < 0) return null;
  const [index, table, alias] = [fields["Index Name"], fields["Relation Name"], fields.Alias].map(textOf);
  const named = [
    table ?? textOf(fields["CTE Name"]) ?? textOf(fields["Function Name"]),
    alias !== table ? alias : null,
  ];
  const relation = [...named, index === null ? null : `(${index})`].filter((name) => name !== null).join(" ");
  const loops = numberOf(fields["Actual Loops"]) ?? 1;
  const [actual, time] = [numberOf(fields["Actual Rows"]), numberOf(fields["Actual Total Time"])];
  return {
    kind: [textOf(fields["Join Type"]), textOf(fields["Node Type"]) ?? "?"]
      .filter((word) => word !== null && word !== "Inner")
      .join(" "),
    relation: relation || null,
    expected: numberOf(fields["Plan Rows"]),
    actual: actual === null ? null : Math.round(actual * loops),
    cost: numberOf(fields["Total Cost"]),
    time: time === null ? null : time * loops,
    share: null,
    children: below(fieldsOf(fields.Plans), (child) => postgresStep(child, budget)),
  };
}

/** What MySQL and MariaDB nest in a step without being one. */
const NO_STEPS = new Set(["cost_info", "r_engine_stats", "query_optimization", "range_analysis"]);

function mysqlStep(key: string, fields: Fields, budget: Budget): PlanStep | null {
  budget.left -= 1;
  if (budget.left < 0) return null;
  const costs = isFields(fields.cost_info) ? fields.cost_info : {};
  const [table, index] = [textOf(fields.table_name), textOf(fields.key)];
  const nested = Object.entries(fields).filter(([name]) => !NO_STEPS.has(name));
  const loops = numberOf(fields.r_loops) ?? 1;
  const actual = numberOf(fields.r_rows);
  return {
    kind: [key.replaceAll("_", " "), textOf(fields.access_type)].filter((word) => word !== null).join(": "),
    relation: table === null ? null : index === null ? table : `${table} (${index})`,
    expected: numberOf(fields.rows_examined_per_scan) ?? numberOf(fields.rows),
    actual: actual === null ? null : Math.round(actual * loops),
    cost: numberOf(costs.query_cost) ?? sumOf(costs.read_cost, costs.eval_cost) ?? numberOf(fields.cost),
    time: numberOf(fields.r_total_time_ms),
    share: null,
    children: nested.flatMap(([name, value]) =>
      // A list of tables that are joined has objects of one key each: `{"table": {…}}`.
      below(fieldsOf(value), (child) => {
        const [only, ...others] = Object.entries(child);
        if (Array.isArray(value) && only && others.length === 0 && isFields(only[1]))
          return mysqlStep(only[0], only[1], budget);
        return mysqlStep(name, child, budget);
      }),
    ),
  };
}

function below(children: Fields[], stepOf: (child: Fields) => PlanStep | null): PlanStep[] {
  return children.map(stepOf).filter((step) => step !== null);
}

/** Set the share of a step and of all below it: what it took without them, of the whole. */
function share(step: PlanStep, ofTime: boolean, whole: number): void {
  const own = ofTime ? step.time : step.cost;
  if (own !== null && whole > 0) step.share = Math.min(Math.max((own - takenBelow(step, ofTime)) / whole, 0), 1);
  for (const child of step.children) share(child, ofTime, whole);
}

/** Return what the steps below one took; of a step that does not say it, what those below it took. */
function takenBelow({ children }: PlanStep, ofTime: boolean): number {
  return children.reduce((sum, child) => sum + ((ofTime ? child.time : child.cost) ?? takenBelow(child, ofTime)), 0);
}

function fieldsOf(value: unknown): Fields[] {
  return (Array.isArray(value) ? value : [value]).filter(isFields);
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function textOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

function sumOf(one: unknown, other: unknown): number | null {
  const [left, right] = [numberOf(one), numberOf(other)];
  return left === null && right === null ? null : (left ?? 0) + (right ?? 0);
}

/** MySQL writes costs as texts. */
function numberOf(value: unknown): number | null {
  const number = typeof value === "string" && value !== "" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : null;
}

// Saved views of lists: filters and columns under a name. Any client of the user can have written what is stored.

type Value = string | number | boolean | readonly string[];

export interface SavedView {
  name: string;
  /** The query of the list's address. */
  search: Readonly<Record<string, Value>>;
}

/** Saved views by list. */
export type SavedViews = Readonly<Record<string, readonly SavedView[]>>;

export const LONGEST_NAME = 60;
export const MOST_VIEWS = 30; // of one list
const LONGEST_SEARCH = 4_000; // characters of one view in JSON: all preferences together have 64 KiB

/** Return the views in a stored object, without what is no view. */
export function savedViewsOf(stored: unknown): SavedViews {
  const lists = Object.entries(isObject(stored) ? stored : {});
  return Object.fromEntries(lists.map(([list, views]) => [list, viewsOf(views)]));
}

/** Return the views with a new one at the end; it replaces one of the same name in its place. */
export function withView(views: readonly SavedView[], name: string, search: object): SavedView[] {
  const view = { name: name.trim(), search: searchOf(search) };
  const place = views.findIndex((other) => other.name === view.name);
  return place < 0 ? [...views, view] : views.map((other, index) => (index === place ? view : other));
}

export type ViewProblem = "name" | "taken" | "many" | "large";

/** Return why these views cannot be stored; null if they can. */
export function problemOf(views: readonly SavedView[]): ViewProblem | null {
  const names = views.map(({ name }) => name.trim());
  if (names.some((name) => name === "" || name.length > LONGEST_NAME)) return "name";
  if (new Set(names).size < names.length) return "taken";
  if (views.length > MOST_VIEWS) return "many";
  return views.every(({ search }) => JSON.stringify(search).length <= LONGEST_SEARCH) ? null : "large";
}

function viewsOf(stored: unknown): SavedView[] {
  const views = new Map<string, SavedView>();
  for (const view of Array.isArray(stored) ? stored : []) {
    if (!isObject(view) || typeof view.name !== "string" || !isObject(view.search)) continue;
    const clean = { name: view.name.trim(), search: searchOf(view.search) };
    if (problemOf([clean]) === null && !views.has(clean.name)) views.set(clean.name, clean);
  }
  return [...views.values()].slice(0, MOST_VIEWS);
}

function searchOf(search: object): Record<string, Value> {
  return Object.fromEntries(Object.entries(search).filter(([, value]) => isValue(value)));
}

function isValue(value: unknown): value is Value {
  if (Array.isArray(value)) return value.every((text) => typeof text === "string");
  return ["string", "number", "boolean"].includes(typeof value);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

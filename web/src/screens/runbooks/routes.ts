import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";
import { textsOf } from "../../engines/search";

const getParentRoute = () => shellRoute;

/** What to run, and where. */
export interface RunbookSearch {
  repository?: string;
  file?: string;
  connection?: string;
}

const runbookSearch = (search: Record<string, unknown>): RunbookSearch =>
  textsOf(search, ["repository", "file", "connection"]);

export const runbookRoutes = [
  createRoute({
    getParentRoute,
    path: "/runbooks",
    validateSearch: (search: Record<string, unknown>): { search?: string; connection?: string } =>
      textsOf(search, ["search", "connection"]),
    component: lazyRouteComponent(() => import("./runbooks"), "RunbooksScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/runbooks/run",
    validateSearch: (search: Record<string, unknown>): RunbookSearch & { session?: string } =>
      textsOf(search, ["repository", "file", "connection", "session"]),
    component: lazyRouteComponent(() => import("./run"), "RunScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/runbooks/schedules",
    validateSearch: (search: Record<string, unknown>): { search?: string } => textsOf(search, ["search"]),
    component: lazyRouteComponent(() => import("./schedules"), "SchedulesScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/runbooks/schedules/new",
    validateSearch: runbookSearch,
    component: lazyRouteComponent(() => import("./schedule"), "NewScheduleScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/runbooks/schedules/$name",
    component: lazyRouteComponent(() => import("./schedule"), "ScheduleScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/runbooks/repositories",
    component: lazyRouteComponent(() => import("./repositories"), "RepositoriesScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/runbooks/repositories/new",
    component: lazyRouteComponent(() => import("./repository"), "NewRepositoryScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/runbooks/repositories/$id",
    component: lazyRouteComponent(() => import("./repository"), "RepositoryScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/runbooks/rules",
    validateSearch: (search: Record<string, unknown>): { search?: string } => textsOf(search, ["search"]),
    component: lazyRouteComponent(() => import("./rules"), "RulesScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/runbooks/rules/new",
    component: lazyRouteComponent(() => import("./rule"), "RuleScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/runbooks/rules/$name",
    component: lazyRouteComponent(() => import("./rule"), "RuleScreen"),
  }),
] as const;

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";
import { choiceOf, textOf } from "../../engines/search";
import { VIEWS, type View } from "./views";

export interface AccessSearch {
  view?: View;
  /** Whose access to which connection is explained. */
  user?: string;
  connection?: string;
}

export const accessRuleRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/access-rules",
    validateSearch: (search: Record<string, unknown>): AccessSearch => ({
      ...choiceOf(search, "view", VIEWS),
      ...textOf(search, "user"),
      ...textOf(search, "connection"),
    }),
    component: lazyRouteComponent(() => import("./access-rules"), "AccessRulesScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/access-rules/new",
    component: lazyRouteComponent(() => import("./access-rule"), "AccessRuleScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/access-rules/$name",
    component: lazyRouteComponent(() => import("./access-rule"), "AccessRuleScreen"),
  }),
] as const;

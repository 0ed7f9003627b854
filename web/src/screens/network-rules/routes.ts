import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";
import { textOf } from "../../engines/search";

export const networkRuleRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/network-rules",
    validateSearch: (search: Record<string, unknown>): { connection?: string } => textOf(search, "connection"),
    component: lazyRouteComponent(() => import("./network-rules"), "NetworkRulesScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/network-rules/new",
    component: lazyRouteComponent(() => import("./network-rule"), "NetworkRuleScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/network-rules/$name",
    component: lazyRouteComponent(() => import("./network-rule"), "NetworkRuleScreen"),
  }),
] as const;

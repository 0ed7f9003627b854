import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";
import { textOf } from "../../engines/search";

export const reviewRuleRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/review-rules",
    validateSearch: (search: Record<string, unknown>): { connection?: string } => textOf(search, "connection"),
    component: lazyRouteComponent(() => import("./review-rules"), "ReviewRulesScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/review-rules/new",
    component: lazyRouteComponent(() => import("./review-rule"), "ReviewRuleScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/review-rules/$name",
    component: lazyRouteComponent(() => import("./review-rule"), "ReviewRuleScreen"),
  }),
] as const;

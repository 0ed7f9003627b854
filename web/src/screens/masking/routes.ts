import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";
import { textOf } from "../../engines/search";

export const maskingRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/masking",
    validateSearch: (search: Record<string, unknown>): { connection?: string } => textOf(search, "connection"),
    component: lazyRouteComponent(() => import("./masking-rules"), "MaskingRulesScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/masking/new",
    validateSearch: (search: Record<string, unknown>): { preset?: string } => textOf(search, "preset"),
    component: lazyRouteComponent(() => import("./masking-rule"), "NewMaskingRuleScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/masking/$name",
    component: lazyRouteComponent(() => import("./masking-rule"), "MaskingRuleScreen"),
  }),
] as const;

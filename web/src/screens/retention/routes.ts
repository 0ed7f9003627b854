import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";

export const retentionRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/retention",
    component: lazyRouteComponent(() => import("./retention"), "RetentionScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/retention/holds",
    component: lazyRouteComponent(() => import("./holds"), "HoldsScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/retention/purges",
    component: lazyRouteComponent(() => import("./purges"), "PurgesScreen"),
  }),
] as const;

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { rootRoute, shellRoute } from "../../app/routes";
import { textOf } from "../../engines/search";

export const meRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/me",
    component: lazyRouteComponent(() => import("./me"), "MeScreen"),
  }),
] as const;

/** Outside of the shell: nothing else works before. */
export const requiredFactorRoutes = [
  createRoute({
    getParentRoute: () => rootRoute,
    path: "/second-factor",
    validateSearch: (search: Record<string, unknown>): { next?: string } => textOf(search, "next"),
    component: lazyRouteComponent(() => import("./second-factor"), "RequiredFactorScreen"),
  }),
] as const;

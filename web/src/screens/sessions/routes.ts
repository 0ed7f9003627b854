import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";
import { sessionSearch, sessionView } from "./filters";

export const sessionRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/sessions",
    validateSearch: sessionSearch,
    component: lazyRouteComponent(() => import("./sessions"), "SessionsScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/sessions/$id",
    validateSearch: sessionView,
    component: lazyRouteComponent(() => import("./session"), "SessionScreen"),
  }),
] as const;

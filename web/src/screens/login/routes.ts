import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { rootRoute } from "../../app/routes";
import { textOf } from "../../engines/search";

interface LoginSearch {
  next?: string;
  organization?: string;
}

export const loginRoutes = [
  createRoute({
    getParentRoute: () => rootRoute,
    path: "/login",
    validateSearch: (search: Record<string, unknown>): LoginSearch => ({
      ...textOf(search, "next"),
      ...textOf(search, "organization"),
    }),
    component: lazyRouteComponent(() => import("./login"), "LoginScreen"),
  }),
] as const;

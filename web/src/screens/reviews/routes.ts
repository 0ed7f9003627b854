import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";
import { choiceOf } from "../../engines/search";
import { VIEWS, type View } from "./views";

export const reviewRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/reviews",
    validateSearch: (search: Record<string, unknown>): { view?: View } => choiceOf(search, "view", VIEWS),
    component: lazyRouteComponent(() => import("./reviews"), "ReviewsScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/reviews/$id",
    component: lazyRouteComponent(() => import("./review"), "ReviewScreen"),
  }),
] as const;

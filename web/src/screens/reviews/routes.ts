import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";
import { reviewSearch } from "./views";

export const reviewRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/reviews",
    validateSearch: reviewSearch,
    component: lazyRouteComponent(() => import("./reviews"), "ReviewsScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/reviews/$id",
    component: lazyRouteComponent(() => import("./review"), "ReviewScreen"),
  }),
] as const;

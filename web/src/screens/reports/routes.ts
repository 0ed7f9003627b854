import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";
import { reportSearch } from "./filters";

export const reportRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/reports",
    validateSearch: reportSearch,
    component: lazyRouteComponent(() => import("./activity"), "ActivityScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/reports/masking",
    validateSearch: reportSearch,
    component: lazyRouteComponent(() => import("./masking"), "MaskingScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/reports/reviews",
    validateSearch: reportSearch,
    component: lazyRouteComponent(() => import("./reviews"), "ReviewsReportScreen"),
  }),
] as const;

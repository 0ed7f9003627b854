import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";

export const sqlRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/sql/$connection",
    component: lazyRouteComponent(() => import("./sql"), "SqlScreen"),
  }),
] as const;

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";

export const terminalRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/terminal/$connection",
    component: lazyRouteComponent(() => import("./terminal"), "TerminalScreen"),
  }),
] as const;

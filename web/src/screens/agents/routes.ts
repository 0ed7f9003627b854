import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";
import { textOf } from "../../engines/search";

export const agentRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/agents",
    validateSearch: (search: Record<string, unknown>): { search?: string } => textOf(search, "search"),
    component: lazyRouteComponent(() => import("./agents"), "AgentsScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/agents/$name",
    component: lazyRouteComponent(() => import("./agent"), "AgentScreen"),
  }),
] as const;

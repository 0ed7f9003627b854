import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";
import { choiceOf } from "../../engines/search";
import { connectionSearch } from "./filters";
import { TABS, type Tab } from "./tabs";

export const connectionRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/connections",
    validateSearch: connectionSearch,
    component: lazyRouteComponent(() => import("./connections"), "ConnectionsScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/connections/new",
    component: lazyRouteComponent(() => import("./new-connection"), "NewConnectionScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/connections/$name",
    validateSearch: (search: Record<string, unknown>): { tab?: Tab } => choiceOf(search, "tab", TABS),
    component: lazyRouteComponent(() => import("./connection"), "ConnectionScreen"),
  }),
] as const;

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";
import { auditSearch } from "./filters";

export const auditRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/audit",
    validateSearch: auditSearch,
    component: lazyRouteComponent(() => import("./audit-log"), "AuditLogScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/audit/$id",
    component: lazyRouteComponent(() => import("./audit-entry"), "AuditEntryScreen"),
  }),
] as const;

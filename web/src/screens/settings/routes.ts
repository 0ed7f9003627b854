import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";
import { choiceOf, textOf } from "../../engines/search";
import { LEVELS, type LogSearch } from "./levels";

const getParentRoute = () => shellRoute;

export const settingRoutes = [
  createRoute({
    getParentRoute,
    path: "/settings",
    component: lazyRouteComponent(() => import("./organisation"), "OrganisationScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/settings/login",
    component: lazyRouteComponent(() => import("./login-method"), "LoginMethodScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/settings/features",
    component: lazyRouteComponent(() => import("./features"), "FeaturesScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/settings/server",
    component: lazyRouteComponent(() => import("./server"), "ServerScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/settings/log",
    validateSearch: (search: Record<string, unknown>): LogSearch => ({
      ...choiceOf(search, "level", LEVELS),
      ...textOf(search, "process"),
    }),
    component: lazyRouteComponent(() => import("./log"), "LogScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/settings/organisations",
    component: lazyRouteComponent(() => import("./organisations"), "OrganisationsScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/settings/about",
    component: lazyRouteComponent(() => import("./about"), "AboutScreen"),
  }),
] as const;

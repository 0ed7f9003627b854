import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";
import { choiceOf } from "../../engines/search";
import { DELIVERY_STATES, ISSUE_STATES, SINK_KINDS } from "./kinds";

const getParentRoute = () => shellRoute;

export const integrationRoutes = [
  createRoute({
    getParentRoute,
    path: "/integrations",
    component: lazyRouteComponent(() => import("./sinks"), "SinksScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/integrations/sinks/new",
    validateSearch: (search: Record<string, unknown>) => choiceOf(search, "kind", SINK_KINDS),
    component: lazyRouteComponent(() => import("./sink-new"), "NewSinkScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/integrations/sinks/$name",
    validateSearch: (search: Record<string, unknown>) => choiceOf(search, "state", DELIVERY_STATES),
    component: lazyRouteComponent(() => import("./sink"), "SinkScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/integrations/events",
    component: lazyRouteComponent(() => import("./events"), "EventsScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/integrations/tracker",
    validateSearch: (search: Record<string, unknown>) => choiceOf(search, "state", ISSUE_STATES),
    component: lazyRouteComponent(() => import("./tracker"), "TrackerScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/integrations/templates",
    component: lazyRouteComponent(() => import("./templates"), "TemplatesScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/integrations/templates/new",
    component: lazyRouteComponent(() => import("./template"), "NewTemplateScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/integrations/templates/$name",
    component: lazyRouteComponent(() => import("./template"), "TemplateScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/integrations/chat",
    component: lazyRouteComponent(() => import("./chat"), "ChatScreen"),
  }),
] as const;

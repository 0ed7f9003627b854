import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";
import { textOf } from "../../engines/search";

const validateSearch = (search: Record<string, unknown>): { user_code?: string } => textOf(search, "user_code");

const validateAppSearch = (search: Record<string, unknown>): { host?: string; challenge?: string } => ({
  ...textOf(search, "host"),
  ...textOf(search, "challenge"),
});

export const codeRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/device",
    validateSearch,
    component: lazyRouteComponent(() => import("./device"), "DeviceScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/ssh-login",
    validateSearch,
    component: lazyRouteComponent(() => import("./ssh-login"), "SshLoginScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/open-app",
    validateSearch: validateAppSearch,
    component: lazyRouteComponent(() => import("./open-app"), "OpenAppScreen"),
  }),
] as const;

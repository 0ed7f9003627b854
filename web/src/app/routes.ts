// The two routes that all others are below: the whole application, and the part of it that needs a login.

import type { QueryClient } from "@tanstack/react-query";
import { createRootRouteWithContext, createRoute, redirect } from "@tanstack/react-router";
import { FactorRequired, userQuery } from "../api/account";
import { loginSearch, PROVIDER_FAILURE } from "../engines/next";
import { textsOf } from "../engines/search";
import { ErrorScreen, NotFoundScreen } from "../screens/errors/errors";
import { Shell } from "./shell";

export const rootRoute = createRootRouteWithContext<{ queries: QueryClient }>()({
  notFoundComponent: NotFoundScreen,
  errorComponent: ErrorScreen,
});

// An identity provider leads back to a screen also where it does not log the user in; the login then says why. Links for
// the users of an organisation name it.
const PARAMETERS = [...PROVIDER_FAILURE, "organization"] as const;

/** All screens that need a login. Without one they lead to it, and back. */
export const shellRoute = createRoute({
  getParentRoute: () => rootRoute,
  id: "shell",
  component: Shell,
  validateSearch: (search: Record<string, unknown>) => textsOf(search, PARAMETERS),
  beforeLoad: async ({ context, location }) => {
    const user = await context.queries.ensureQueryData(userQuery).catch((error: unknown) => {
      if (error instanceof FactorRequired) throw redirect({ to: "/second-factor", search: { next: location.href } });
      throw error;
    });
    if (user === null) throw redirect({ to: "/login", search: loginSearch(location.href) });
    return { user };
  },
});

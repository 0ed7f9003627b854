import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createRouter } from "@tanstack/react-router";
import { type User, userQuery } from "../api/account";
import { handleLoggedOut } from "../api/client";
import { ApiError } from "../api/errors";
import { prefetchHome } from "../api/home";
import { keepLogin } from "../api/login-keeper";
import { loginSearch } from "../engines/next";
import { accessRuleRoutes } from "../screens/access-rules/routes";
import { agentRoutes } from "../screens/agents/routes";
import { auditRoutes } from "../screens/audit/routes";
import { codeRoutes } from "../screens/codes/routes";
import { connectionRoutes } from "../screens/connections/routes";
import { guardrailRoutes } from "../screens/guardrails/routes";
import { homeRoutes } from "../screens/home/routes";
import { integrationRoutes } from "../screens/integrations/routes";
import { loginRoutes } from "../screens/login/routes";
import { maskingRoutes } from "../screens/masking/routes";
import { meRoutes, requiredFactorRoutes } from "../screens/me/routes";
import { networkRuleRoutes } from "../screens/network-rules/routes";
import { peopleRoutes } from "../screens/people/routes";
import { reportRoutes } from "../screens/reports/routes";
import { retentionRoutes } from "../screens/retention/routes";
import { reviewRuleRoutes } from "../screens/review-rules/routes";
import { reviewRoutes } from "../screens/reviews/routes";
import { runbookRoutes } from "../screens/runbooks/routes";
import { sessionRoutes } from "../screens/sessions/routes";
import { settingRoutes } from "../screens/settings/routes";
import { setupRoutes } from "../screens/setup/routes";
import { sqlRoutes } from "../screens/sql/routes";
import { terminalRoutes } from "../screens/terminal/routes";
import { rootRoute, shellRoute } from "./routes";

const queries = new QueryClient({
  defaultOptions: {
    queries: { retry: (failures, error) => !(error instanceof ApiError) && failures < 2, throwOnError: false },
  },
});

const routeTree = rootRoute.addChildren([
  ...loginRoutes,
  ...setupRoutes,
  ...requiredFactorRoutes,
  shellRoute.addChildren([
    ...homeRoutes,
    ...connectionRoutes,
    ...sessionRoutes,
    ...reviewRoutes,
    ...sqlRoutes,
    ...runbookRoutes,
    ...terminalRoutes,
    ...guardrailRoutes,
    ...maskingRoutes,
    ...networkRuleRoutes,
    ...reviewRuleRoutes,
    ...accessRuleRoutes,
    ...peopleRoutes,
    ...agentRoutes,
    ...meRoutes,
    ...codeRoutes,
    ...auditRoutes,
    ...reportRoutes,
    ...retentionRoutes,
    ...integrationRoutes,
    ...settingRoutes,
  ]),
]);

export const router = createRouter({
  routeTree,
  context: { queries },
  search: { strict: true }, // what no screen knows is taken out of the address
  defaultPreload: "intent",
  scrollRestoration: false, // it needs an inline script, which the policy forbids
  Wrap: ({ children }) => <QueryClientProvider client={queries}>{children}</QueryClientProvider>,
});

/** Load the scripts of the screen at this address, and what home shows, before anything is drawn. */
export function loadScreen(): void {
  const [routes] = router.getMatchedRoutes(router.latestLocation.pathname);
  for (const route of routes) {
    router.loadRouteChunk(route)?.catch(() => {}); // the screen tries again, and says what failed
  }
  if (router.latestLocation.pathname !== "/") return;
  const read = (user: User | null) => user && prefetchHome(queries, user.email);
  queries.ensureQueryData(userQuery).then(read, () => {}); // the same
}

/** A login that ended while a page is open: its data goes, and the next login leads back to the page. */
function leadToLogin(): void {
  const { pathname, href } = router.state.location;
  if (pathname === "/login" || pathname === "/setup") return;
  queries.clear();
  void router.navigate({ to: "/login", search: loginSearch(href) });
}

handleLoggedOut(leadToLogin);
keepLogin(leadToLogin);

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

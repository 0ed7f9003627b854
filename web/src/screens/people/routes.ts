import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";
import { choiceOf, textOf } from "../../engines/search";
import { type PeopleSearch, STATUSES } from "./searches";

const getParentRoute = () => shellRoute;

export const peopleRoutes = [
  createRoute({
    getParentRoute,
    path: "/people",
    validateSearch: (search: Record<string, unknown>): PeopleSearch => ({
      ...textOf(search, "search"),
      ...choiceOf(search, "status", STATUSES),
    }),
    component: lazyRouteComponent(() => import("./people"), "PeopleScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/people/$user",
    component: lazyRouteComponent(() => import("./person"), "PersonScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/people/groups",
    component: lazyRouteComponent(() => import("./groups"), "GroupsScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/people/groups/$group",
    component: lazyRouteComponent(() => import("./group"), "GroupScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/people/service-accounts",
    component: lazyRouteComponent(() => import("./service-accounts"), "ServiceAccountsScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/people/service-accounts/$account",
    component: lazyRouteComponent(() => import("./service-accounts"), "ServiceAccountScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/people/api-keys",
    component: lazyRouteComponent(() => import("./api-keys"), "ApiKeysScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/people/api-keys/$key",
    component: lazyRouteComponent(() => import("./api-key"), "ApiKeyScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/people/machines",
    component: lazyRouteComponent(() => import("./machines"), "MachinesScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/people/machines/$machine",
    component: lazyRouteComponent(() => import("./machine"), "MachineScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/people/ssh-authorities",
    component: lazyRouteComponent(() => import("./ssh-authorities"), "AuthoritiesScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/people/ssh-authorities/$authority",
    component: lazyRouteComponent(() => import("./ssh-authorities"), "AuthorityScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/people/federation-rules",
    component: lazyRouteComponent(() => import("./federation-rules"), "FederationRulesScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/people/federation-rules/new",
    component: lazyRouteComponent(() => import("./federation-rule"), "FederationRuleScreen"),
  }),
  createRoute({
    getParentRoute,
    path: "/people/federation-rules/$name",
    component: lazyRouteComponent(() => import("./federation-rule"), "FederationRuleScreen"),
  }),
] as const;

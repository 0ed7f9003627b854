import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "../../app/routes";
import { choiceOf, textOf } from "../../engines/search";
import { PANELS, type Panel } from "./panels";

interface EditorSearch {
  panel?: Panel;
  preset?: string;
}

const editorSearch = (search: Record<string, unknown>): EditorSearch => ({
  ...choiceOf(search, "panel", PANELS),
  ...textOf(search, "preset"),
});

export const guardrailRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/guardrails",
    validateSearch: (search: Record<string, unknown>): { connection?: string } => textOf(search, "connection"),
    component: lazyRouteComponent(() => import("./guardrails"), "GuardrailsScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/guardrails/new",
    validateSearch: editorSearch,
    component: lazyRouteComponent(() => import("./guardrail"), "NewGuardrailScreen"),
  }),
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/guardrails/$name",
    validateSearch: editorSearch,
    component: lazyRouteComponent(() => import("./guardrail"), "GuardrailScreen"),
  }),
] as const;

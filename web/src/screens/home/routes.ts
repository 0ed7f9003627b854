import { createRoute } from "@tanstack/react-router";
import { prefetchHome } from "../../api/home";
import { shellRoute } from "../../app/routes";
import { HomeScreen } from "./home";

export const homeRoutes = [
  createRoute({
    getParentRoute: () => shellRoute,
    path: "/",
    component: HomeScreen, // not loaded apart: most visits begin here, and it is small
    loader: ({ context }) => prefetchHome(context.queries, context.user.email),
  }),
] as const;

import { useRouteContext } from "@tanstack/react-router";
import type { User } from "../api/account";

/** The user of a screen that needs a login. */
export function useUser(): User {
  return useRouteContext({ from: "/shell" }).user;
}

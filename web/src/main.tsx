import "@fontsource-variable/inter/wght.css";
import "@fontsource-variable/jetbrains-mono/wght.css";
import "./tokens.css";
import "./base.css";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { moveToOwnAddress } from "./app/address";
import { loadScreen, router } from "./app/router";

const root = document.getElementById("root");
if (root !== null && !moveToOwnAddress()) {
  loadScreen();
  createRoot(root).render(
    <StrictMode>
      <RouterProvider router={router} />
    </StrictMode>,
  );
}

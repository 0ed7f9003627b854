// Serves single components to the tests in tests/web/test_components.py, without a gateway. It is never built.

import react from "@vitejs/plugin-react";
import { defineConfig, searchForWorkspaceRoot } from "vite";

export default defineConfig({
  root: import.meta.dirname,
  cacheDir: process.env.POSTERN_VITE_CACHE,
  plugins: [react()],
  server: { hmr: false, fs: { allow: [searchForWorkspaceRoot(import.meta.dirname)] } },
});

import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { apiOf, underPolicyOf } from "./development.ts";

// The gateway that the development server asks, at the address that its users have.
const gateway = process.env.POSTERN_API_URL ?? "http://localhost:7480";

export default defineConfig({
  plugins: [react(), underPolicyOf(gateway)],
  build: {
    outDir: "../src/postern/web/dist",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // fonts and icons are files of this origin: the policy allows no data: fonts
    modulePreload: { polyfill: false },
    cssCodeSplit: false, // all styles are 11 kB
    rolldownOptions: {
      output: {
        // Few files of a fair size: a browser asks a gateway without HTTP/2 for six at once.
        codeSplitting: {
          groups: [
            {
              name: "parts",
              test: /node_modules.*\/(SelectionIndicator\.|useToggleState\.|use-sync-external-store\/)|web\/src\/(messages\/|api\/(client|errors|pages|account|drafts|login-keeper|catalogue)|engines\/(marks|next|search|sql\/drafts|times)|parts\/(button|chip|facts|field|form|link-button|list|marked-text|notice|page|pin|search|section|table|time|views)\.)/,
            },
          ],
        },
      },
    },
  },
  worker: { format: "es" },
  server: { proxy: { "/api": apiOf(gateway) } },
});

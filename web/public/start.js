// Runs before anything is painted.

// The theme and density that this browser showed last, so that the page does not flash in others. The application stores
// them (src/app/appearance.ts), and corrects them once it knows the user's.
(() => {
  try {
    const { theme, density } = JSON.parse(localStorage.getItem("postern appearance") ?? "{}");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    if (density === "compact") document.documentElement.dataset.density = density;
  } catch {
    // No storage, or not ours: the page follows the system.
  }
})();

// What every screen with a login reads first is asked for while the scripts are still loading. These screens also begin
// with the frame that they have in common.
(() => {
  if (["/login", "/setup", "/second-factor"].includes(location.pathname)) return;
  document.documentElement.dataset.frame = "";
  for (const href of ["/api/login/session", "/api/userinfo"]) {
    const link = document.createElement("link");
    Object.assign(link, { rel: "preload", as: "fetch", crossOrigin: "anonymous", href });
    document.head.append(link);
  }
})();

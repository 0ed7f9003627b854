// Runs before anything is painted: the theme and density that this browser showed last, so that the page does not
// flash in others. The application stores them (src/app/appearance.ts), and corrects them once it knows the user's.
(() => {
  try {
    const { theme, density } = JSON.parse(localStorage.getItem("postern appearance") ?? "{}");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    if (density === "compact") document.documentElement.dataset.density = density;
  } catch {
    // No storage, or not ours: the page follows the system.
  }
})();

export const text = {
  title: "This page failed",
  notFound: "There is nothing here",
  notFoundHint: (path: string) => `This gateway has no page at ${path}.`,
  goHome: "Go to the home page",
  updated: "The gateway was updated. Reload to get the new version of this application.",
  reload: "Reload",
};

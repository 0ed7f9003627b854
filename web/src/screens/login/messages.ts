export const text = {
  login: {
    title: "Log in",
    email: "E-mail address",
    userName: "User name",
    password: "Password",
    submit: "Log in",
    withProvider: (name: string) => `Log in with ${name || "your identity provider"}`,
    providerFailed: "The login at the identity provider failed:",
    organization: (name: string) => `Organisation: ${name}`,
    setupRequired: "No user can log in yet. Open the set-up link that the gateway printed at its first start.",
  },
  factor: {
    title: "Second factor",
    back: "Start again",
  },
};

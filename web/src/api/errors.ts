/** An answer of the gateway that is an error. Its message says what happened, why, and what to do next. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly requestId: string,
    /** Which error it is, where more than the status matters: `step-up-required`. */
    readonly code = "",
  ) {
    super(message);
    this.name = "ApiError";
  }
}

/** The gateway did not answer at all: it is restarting, or the network is down. */
export class GatewayUnreachable extends Error {
  constructor() {
    super("the gateway does not answer; check your network, or try again in a moment");
    this.name = "GatewayUnreachable";
  }
}

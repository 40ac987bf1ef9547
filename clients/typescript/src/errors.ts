/**
 * What can go wrong:
 *
 *     SurefootError
 *     ├── NetworkError    no answer came; the same call again is safe
 *     └── ApiError        the service said no: status, code, field, requestId
 */
export class SurefootError extends Error {
  override name = "SurefootError";
}

/** No answer came. The request may have been recorded: the same call again is safe, and gets the same answer. */
export class NetworkError extends SurefootError {
  override name = "NetworkError";
}

/** The service refused, or something before it did (then `code` is "unknown"). */
export class ApiError extends SurefootError {
  override name = "ApiError";

  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly field: string | null,
    readonly requestId: string | null,
    readonly retryAfterSeconds: number | null,
  ) {
    super(`${status} ${code}: ${message}${field === null ? "" : ` [${field}]`}`);
  }
}

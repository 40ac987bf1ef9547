import { setTimeout as wait } from "node:timers/promises";

import { type DecisionReply, type ErrorReply, MAXIMUM_ITEMS, Operations, type Outcome, type OutcomeReceipt } from "./api.js";
import { ApiError, NetworkError } from "./errors.js";

export interface Settings {
  /** How often a request is sent at most. */
  attempts?: number;
  /** Milliseconds until the second attempt; twice as long before each further one. */
  firstWait?: number;
  /** A service that wants to be left alone for longer (milliseconds) is not asked again. */
  longestWait?: number;
  /** Milliseconds that each attempt may take. */
  timeout?: number;
}

const NOT_NOW = new Set([408, 429, 502, 503, 504]);
const DEFAULTS: Required<Settings> = { attempts: 5, firstWait: 250, longestWait: 30_000, timeout: 15_000 };

/**
 * Asks the decision service. A request is put into text once and repeated as it is until there is an answer, so that
 * there is one draw for each decision point whatever the network does.
 */
export class SurefootClient extends Operations {
  readonly #key: string;
  readonly #settings: Required<Settings>;

  constructor(
    readonly url: string,
    key: string,
    settings: Settings = {},
  ) {
    super();
    this.#key = key;
    this.#settings = { ...DEFAULTS, ...settings };
  }

  /** Send any number of outcomes, in as many requests as they need; a receipt for each, in order. */
  async sendOutcomes(outcomes: readonly Outcome[]): Promise<OutcomeReceipt[]> {
    const most = MAXIMUM_ITEMS.Outcomes.outcomes;
    const receipts: OutcomeReceipt[] = [];
    for (let start = 0; start < outcomes.length; start += most) {
      receipts.push(...(await this.recordOutcomes({ outcomes: outcomes.slice(start, start + most) })).results);
    }
    return receipts;
  }

  protected override async send<Reply>(method: string, path: string, body?: unknown): Promise<Reply> {
    const text = body === undefined ? null : JSON.stringify(body);
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#sendOnce<Reply>(method, path, text);
      } catch (error) {
        await wait(this.#waitAfter(attempt, error));
      }
    }
  }

  async #sendOnce<Reply>(method: string, path: string, body: string | null): Promise<Reply> {
    const headers = { Authorization: `Bearer ${this.#key}`, "Content-Type": "application/json" };
    const signal = AbortSignal.timeout(this.#settings.timeout);
    let reply: Response;
    let text: string;
    try {
      reply = await fetch(this.url.replace(/\/+$/, "") + path, { method, headers, body, signal, redirect: "manual" });
      text = await reply.text();
    } catch (error) {
      throw new NetworkError(`${method} ${path}: no answer (${String(error)}); the same call again is safe`, { cause: error });
    }
    if (!reply.ok) throw readError(reply, text);
    try {
      return JSON.parse(text) as Reply;
    } catch {
      throw new ApiError(reply.status, "unknown", "the answer is not Surefoot's; is the URL right?", null, null, null);
    }
  }

  /** Milliseconds until the next attempt; throws the error when there is none. */
  #waitAfter(attempt: number, error: unknown): number {
    const { attempts, firstWait, longestWait } = this.#settings;
    const again = error instanceof NetworkError || (error instanceof ApiError && NOT_NOW.has(error.status));
    const askedFor = error instanceof ApiError ? 1000 * (error.retryAfterSeconds ?? 0) : 0;
    if (!again || attempt >= attempts || askedFor > longestWait) throw error;
    const backOff = Math.min(longestWait, firstWait * 2 ** (attempt - 1));
    return Math.max(askedFor, backOff * (0.5 + Math.random() / 2));
  }
}

/** What came back for a decision, ready to be sent; it echoes the probability, which the service compares with its record. */
export function makeOutcome(decision: DecisionReply, outcome: number | null, timestamp: Date): Outcome {
  return {
    decision_id: decision.decision_id,
    outcome,
    timestamp: timestamp.toISOString(),
    action_prob: decision.action_prob[decision.action] ?? null,
  };
}

function readError(reply: Response, text: string): ApiError {
  let detail = { code: "unknown", message: "the service, or a proxy before it, gave no reason", field: null as string | null };
  try {
    detail = (JSON.parse(text) as ErrorReply).error ?? detail;
  } catch {
    // Not Surefoot's words; the status says enough.
  }
  const milliseconds = Number.parseInt(reply.headers.get("retry-after-ms") ?? "", 10);
  const wholeSeconds = Number.parseInt(reply.headers.get("retry-after") ?? "", 10);
  const seconds = Number.isNaN(milliseconds) ? wholeSeconds : milliseconds / 1000;
  const requestId = reply.headers.get("x-request-id");
  const retryAfter = Number.isNaN(seconds) ? null : seconds;
  return new ApiError(reply.status, detail.code, detail.message, detail.field, requestId, retryAfter);
}

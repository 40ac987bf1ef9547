/**
 * The server of an app. A phone asks it, and it asks Surefoot: the key never leaves this machine, the phone never says who it
 * is but proves it, and every decision is drawn, recorded and accounted for by the service.
 *
 *     SUREFOOT_URL=http://localhost:8000 SUREFOOT_KEY=sf_… PHONES='{"token-of-a-phone": "p-017"}' PORT=3000 npm run example
 *
 * POST /prompt   {"decision_idx": 0, "timestamp": "2026-03-01T09:30:00+01:00", "context": {…}}  →  {"prompt": true, "decision_id": "…"}
 * POST /outcome  {"decision_id": "…", "outcome": 312, "timestamp": "…"}                →  {"status": "recorded"}
 *
 * A phone that lost the answer sends the same again, with the same timestamp, and gets the same answer.
 */
import { createServer, type IncomingMessage } from "node:http";

import { ApiError, type DecisionRequest, NetworkError, type Outcome, SurefootClient } from "../src/index.js";

const surefoot = new SurefootClient(process.env["SUREFOOT_URL"] ?? "http://localhost:8000", process.env["SUREFOOT_KEY"] ?? "");
const phones = new Map(Object.entries(JSON.parse(process.env["PHONES"] ?? "{}") as Record<string, string>));

type Answer = [status: number, body: unknown];
type Question = (participant: string, body: unknown) => Promise<unknown>;

async function prompt(participant: string, body: unknown): Promise<unknown> {
  const { decision_idx, timestamp, context } = body as Required<Pick<DecisionRequest, "decision_idx" | "timestamp" | "context">>;
  const decision = await surefoot.decide({ participant_id: participant, decision_idx, timestamp, availability: true, context });
  // The phone needs to know what to do, not with which probability: that stays on record.
  return { prompt: decision.action > 0, decision_id: decision.decision_id };
}

async function outcome(_participant: string, body: unknown): Promise<unknown> {
  const { decision_id, outcome, timestamp } = body as Outcome;
  const [receipt] = await surefoot.sendOutcomes([{ decision_id, outcome, timestamp }]);
  return { status: receipt?.status };
}

const QUESTIONS = new Map<string, Question>([
  ["/prompt", prompt],
  ["/outcome", outcome],
]);

async function answer(request: IncomingMessage): Promise<Answer> {
  const participant = phones.get((request.headers.authorization ?? "").replace(/^Bearer /, ""));
  const question = QUESTIONS.get(request.url ?? "");
  if (participant === undefined) return [401, { message: "this phone is not known" }];
  if (question === undefined || request.method !== "POST") return [404, { message: "there is no such question" }];
  try {
    const chunks: Uint8Array[] = [];
    for await (const chunk of request) chunks.push(chunk as Uint8Array);
    return [200, await question(participant, JSON.parse(Buffer.concat(chunks).toString("utf8")))];
  } catch (error) {
    if (error instanceof SyntaxError) return [400, { message: "send JSON" }];
    if (error instanceof ApiError) return [error.status === 401 ? 500 : error.status, { code: error.code, message: error.message }];
    if (error instanceof NetworkError) return [503, { message: "send it again" }];
    throw error;
  }
}

const server = createServer((request, response) => {
  answer(request)
    .catch((error: unknown): Answer => {
      console.error(error);
      return [500, { message: "the app's server failed" }];
    })
    .then(([status, body]) => response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body)));
});

for (const participant of phones.values()) await surefoot.register({ participant_id: participant });
server.listen(Number(process.env["PORT"] ?? 3000), "127.0.0.1", () => {
  const address = server.address();
  console.log(`listening on port ${typeof address === "object" && address !== null ? address.port : address}`);
});

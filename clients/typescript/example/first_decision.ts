import { makeOutcome, SurefootClient } from "surefoot-client";

const surefoot = new SurefootClient(process.env["SUREFOOT_URL"] ?? "", process.env["SUREFOOT_KEY"] ?? "");
await surefoot.register({ participant_id: "p-017" });
const timestamp = new Date().toISOString(); // once for a decision point, not again for each try
const context = { weather: 0.4, engagement: -0.2, place: "home" };
const decision = await surefoot.decide({ participant_id: "p-017", decision_idx: 0, timestamp, availability: true, context });
const [receipt] = await surefoot.sendOutcomes([makeOutcome(decision, 312, new Date())]);
console.log(decision.action_name, decision.action_prob, decision.source, receipt?.status);

// Written by generate.py from the OpenAPI description of the service, which says what every field means. Do not edit.

/** The policy that is live now. */
export interface Activation {
  policy_id: number;
  previous_policy_id: number | null;
}

/** The draw, recorded before it was sent. */
export interface DecisionReply {
  decision_id: string;
  action: number;
  action_prob: number[];
  source: "warm-up" | "policy" | "fallback" | "unavailable";
  reasons: string[];
  policy_id: number | null;
  action_name: string;
  warnings?: string[];
}

/** One decision point. */
export interface DecisionRequest {
  participant_id: string;
  decision_idx: number;
  timestamp: string;
  availability: boolean;
  reasons?: string[];
  context?: Record<string, boolean | number | string | null>;
}

/** What went wrong, where, and what to do. */
export interface ErrorDetail {
  code: string;
  message: string;
  field: string | null;
}

/** Every error has this shape. */
export interface ErrorReply {
  error: ErrorDetail;
}

/** Where a participant stands, for an app that has forgotten it. */
export interface NextDecision {
  participant_id: string;
  last_decision_idx: number | null;
  last_timestamp: string | null;
  next_decision_idx: number;
  not_before: string | null;
  paused: boolean;
  withdrawn: boolean;
}

/** What came after a decision point; null means that it is known to be missing. */
export interface Outcome {
  decision_id: string;
  outcome: number | null;
  timestamp: string;
  action_prob?: number | null;
}

/** What became of one outcome. */
export interface OutcomeReceipt {
  decision_id: string | null;
  status: "recorded" | "repeated" | "late" | "unknown_decision" | "before_decision" | "implausible" | "timestamp_in_future" | "timestamp_too_old" | "withdrawn" | "erased" | "refused";
  action_prob_agrees: boolean | null;
  message?: string | null;
  field?: string | null;
}

/** In the order of the request. */
export interface OutcomeReceipts {
  results: OutcomeReceipt[];
}

/** Several outcomes at once. */
export interface Outcomes {
  outcomes: Outcome[];
}

/** A participant that the study knows. */
export interface Participant {
  participant_id: string;
  registered_at: string;
}

/** What holds now. */
export interface Pause {
  participant_id: string | null;
  paused: boolean;
}

/** Newest first. */
export interface PolicyList {
  policies: PolicySummary[];
}

/** One version. */
export interface PolicySummary {
  id: number;
  created_at: string;
  update_id: number | null;
  accepted: boolean;
  live: boolean;
  activations: Record<string, unknown>[];
  method: string;
  states: string[];
  actions: string[];
  people: number | null;
  coefficients: Record<string, unknown>[];
}

/** Why; kept on record. */
export interface ReasonedRequest {
  reason: string;
}

/** A participant, by a pseudonym. */
export interface Registration {
  participant_id: string;
}

/** What a safety board looks at: counts over the whole study. */
export interface SafetyCounts {
  at: string;
  participants: number;
  withdrawn: number;
  paused: number;
  erased: number;
  study_paused: boolean;
  decisions: number;
  available: number;
  decisions_last_day: number;
  fallbacks_last_day: number;
  most_prompts_in_a_day: number;
  open_alerts: number;
  refused_updates: number;
  reasons: string[];
}

/** An update and how far it is. */
export interface UpdateStatus {
  id: number;
  state: "queued" | "fitting" | "checking" | "done" | "waiting" | "refused" | "failed" | "interrupted";
  started_by: string;
  created_at: string;
  finished_at: string | null;
  policy_id: number | null;
  findings: Record<string, unknown>[];
  result: Record<string, unknown>;
  message: string | null;
}

/** Who has left. */
export interface Withdrawal {
  participant_id: string;
  withdrawn: boolean;
}

/** How many items a list may hold. */
export const MAXIMUM_ITEMS = {
  DecisionRequest: { reasons: 20 },
  Outcomes: { outcomes: 1000 },
} as const;

/** Every operation that answers with JSON; exports are files and metrics are text. */
export abstract class Operations {
  protected abstract send<Reply>(method: string, path: string, body?: unknown): Promise<Reply>;

  /** Decide one decision point. A retry gets the same answer, byte for byte; a different request for it gets 409. (app) */
  decide(body: DecisionRequest): Promise<DecisionReply> {
    return this.send("POST", "/api/v1/decisions", body);
  }

  /** Register a participant by a pseudonym; repeating it is harmless. (app) */
  register(body: Registration): Promise<Participant> {
    return this.send("POST", "/api/v1/participants", body);
  }

  /** Record one outcome, or several; null means known to be missing. Sending one again is harmless. (app) */
  recordOutcomes(body: Outcome | Outcomes): Promise<OutcomeReceipts> {
    return this.send("POST", "/api/v1/outcomes", body);
  }

  /** The participant's last decision point, and the next: for an app that was installed again. (app) */
  findNext(participantId: string): Promise<NextDecision> {
    return this.send("GET", `/api/v1/participants/${encodeURIComponent(participantId)}/next`);
  }

  /** Start a fit; it runs in a process of its own. One at a time: 409 while another is under way. (admin) */
  startUpdate(): Promise<UpdateStatus> {
    return this.send("POST", "/api/v1/updates");
  }

  /** How far an update is, its result, what the policy checks found. (admin) */
  updateStatus(updateId: number): Promise<UpdateStatus> {
    return this.send("GET", `/api/v1/updates/${encodeURIComponent(updateId)}`);
  }

  /** All policy versions, newest first, with coefficients. (admin) */
  policies(): Promise<PolicyList> {
    return this.send("GET", "/api/v1/policies");
  }

  /** Make a policy live; an older one to roll back. (admin) */
  activate(policyId: number): Promise<Activation> {
    return this.send("POST", `/api/v1/policies/${encodeURIComponent(policyId)}/activate`);
  }

  /** A participant leaves, for good: no more decisions, outcomes or learning; the reason is kept. (admin) */
  withdrawParticipant(participantId: string, body: ReasonedRequest): Promise<Withdrawal> {
    return this.send("POST", `/api/v1/participants/${encodeURIComponent(participantId)}/withdraw`, body);
  }

  /** Pause a participant, or go on: while paused every decision point is unavailable, with the reason recorded. (admin) */
  pauseParticipant(participantId: string, change: "pause" | "resume", body: ReasonedRequest): Promise<Pause> {
    return this.send("POST", `/api/v1/participants/${encodeURIComponent(participantId)}/${encodeURIComponent(change)}`, body);
  }

  /** Pause the whole study, or go on. (admin) */
  pauseStudy(change: "pause" | "resume", body: ReasonedRequest): Promise<Pause> {
    return this.send("POST", `/api/v1/study/${encodeURIComponent(change)}`, body);
  }

  /** Counts for a safety board; nothing by arm, nothing about one participant. (monitor) */
  safety(): Promise<SafetyCounts> {
    return this.send("GET", "/api/v1/safety");
  }

  /** The process is alive; needs neither a thread nor the database. (public) */
  checkHealth(): Promise<Record<string, string>> {
    return this.send("GET", "/api/v1/healthz");
  }

  /** The service can decide: within the last second it has written to its database as decisions do. (public) */
  checkReadiness(): Promise<Record<string, string>> {
    return this.send("GET", "/api/v1/readyz");
  }
}

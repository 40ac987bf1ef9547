"""The paper's experiments (S1 to S4) and those that go further (S5 to S7)."""

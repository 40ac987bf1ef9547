"""How far a method looks: at the next outcome, or at everything that follows from an action."""

"""Standard errors and intervals over people, and confidence sequences: intervals that stay valid however often one looks."""

from surefoot.inference.confidence_sequences import (
    ConfidenceSequence,
    DrawTest,
    Stratum,
    compare_draws,
    follow_contrast,
    follow_logs,
)

__all__ = ["ConfidenceSequence", "DrawTest", "Stratum", "compare_draws", "follow_contrast", "follow_logs"]

"""Messages to the trial team: alerts, ends of updates and a daily digest, by e-mail and webhook."""

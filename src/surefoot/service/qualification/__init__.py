"""Qualification: an installation shows that it does what the service promises, in a report that a person signs."""

"""What may be logged of an error."""


def describe_fault(error: Exception) -> str:
    """The kind and the database's own code, never the message: that may hold values."""
    cause = getattr(error, "orig", None)
    code = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None)
    kind = type(error if cause is None else cause).__name__
    return f"{kind} {code}" if code else kind

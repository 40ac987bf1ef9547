"""What the service says when it refuses: one shape for every error."""

from __future__ import annotations

from typing import Any

from fastapi import HTTPException


class Refusal(HTTPException):
    """An honest 4xx or 5xx; the body is `{"error": {"code", "message", "field"}}`."""

    def __init__(
        self, status: int, code: str, message: str, field: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, message, headers)
        self.code, self.field = code, field


def body_of(code: str, message: str, field: str | None = None) -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"code": code, "message": message, "field": field}}

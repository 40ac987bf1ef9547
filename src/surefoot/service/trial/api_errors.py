"""Errors of the API: one shape for all."""

from __future__ import annotations

from typing import Any

from fastapi import HTTPException


class ApiError(HTTPException):
    """An honest 4xx or 5xx; the body is `{"error": {"code", "message", "field"}}`."""

    def __init__(
        self, status: int, code: str, message: str, field: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, message, headers)
        self.code = code
        self.field = field


def error_body(code: str, message: str, field: str | None = None) -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"code": code, "message": message, "field": field}}

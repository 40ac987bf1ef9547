"""The routes that need no key: is it alive, can it answer, how much did it do, how is it used."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse

from surefoot.reports.render import render
from surefoot.service.api.authentication import Door
from surefoot.service.api.routes import service_of
from surefoot.service.database import databases
from surefoot.service.trial.api_errors import Refusal
from surefoot.service.trial.api_models import ErrorReply

router = APIRouter(route_class=Door, tags=["public"], responses={500: {"model": ErrorReply}, 503: {"model": ErrorReply}})


@router.get("/api/v1/healthz")
@router.get("/healthz", include_in_schema=False)
def alive() -> dict[str, str]:
    """The process is alive."""
    return {"status": "alive"}


@router.get("/api/v1/readyz")
@router.get("/readyz", include_in_schema=False)
def ready(request: Request) -> dict[str, str]:
    """The service can answer: its database is there and has the right form."""
    try:
        form = databases.revision(service_of(request).database)
    except sa.exc.SQLAlchemyError as error:
        raise Refusal(503, "no_database", "the database cannot be reached") from error
    if form != databases.newest_revision():
        raise Refusal(503, "old_database", "the database has another form; run surefoot db upgrade")
    return {"status": "ready"}


@router.get("/api/v1/metrics", response_class=PlainTextResponse)
@router.get("/metrics", include_in_schema=False)
def metrics(request: Request) -> Response:
    """Counts for Prometheus."""
    return PlainTextResponse(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/docs", include_in_schema=False)
def documentation(request: Request) -> HTMLResponse:
    """The API on one page, without a file from another host."""
    described: dict[str, Any] = request.app.openapi()
    return HTMLResponse(render("api.html", package="surefoot.service.api", api=described, title=described["info"]["title"]))

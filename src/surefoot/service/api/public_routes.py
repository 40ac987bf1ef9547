"""The routes that need no key: health, readiness, metrics, documentation."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse

from surefoot.reports.render import render
from surefoot.service.api.authentication import AuthenticatedRoute
from surefoot.service.api.routes import trial_of
from surefoot.service.database import databases
from surefoot.service.operations.monitoring import write_readiness
from surefoot.service.trial.api_models import ApiError, ErrorReply

router = APIRouter(
    route_class=AuthenticatedRoute, tags=["public"], responses={500: {"model": ErrorReply}, 503: {"model": ErrorReply}}
)


@router.get("/api/v1/healthz")
@router.get("/healthz", include_in_schema=False)
async def check_health() -> dict[str, str]:
    """The process is alive; needs neither a thread nor the database."""
    return {"status": "alive"}


@router.get("/api/v1/readyz")
@router.get("/readyz", include_in_schema=False)
def check_readiness(request: Request) -> dict[str, str]:
    """The service can answer: it has just written to its database, which has the right schema version."""
    database = trial_of(request).database
    version = databases.schema_version(database)
    write_readiness(database)
    if version != databases.newest_schema_version():
        raise ApiError(503, "old_database", "the database has another schema version; run surefoot db upgrade")
    return {"status": "ready"}


@router.get("/api/v1/metrics", response_class=PlainTextResponse)
@router.get("/metrics", include_in_schema=False)
def show_metrics(request: Request) -> Response:
    """Counts for Prometheus."""
    return PlainTextResponse(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/docs", include_in_schema=False)
def show_documentation(request: Request) -> HTMLResponse:
    """The API on one page, without a file from another host."""
    described: dict[str, Any] = request.app.openapi()
    return HTMLResponse(render("api.html", package="surefoot.service.api", api=described, title=described["info"]["title"]))

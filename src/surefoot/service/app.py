"""The application: routes, errors of one shape, middleware."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware

from surefoot.service import dashboard
from surefoot.service.access import RateLimiter
from surefoot.service.api import routes
from surefoot.service.api.description import Description
from surefoot.service.api.group_commit import DecisionRecorder
from surefoot.service.api.requests import KeyLookups, RequestMiddleware, describe_validation_error
from surefoot.service.dashboard.pages import list_security_headers, render_page
from surefoot.service.database.clock import Job, now, repeat_jobs
from surefoot.service.database.databases import DATABASE_FAULTS
from surefoot.service.database.faults import describe_fault
from surefoot.service.messages import send_messages
from surefoot.service.operations.monitoring import Metrics
from surefoot.service.operations.nightly_backup import run_nightly_backup
from surefoot.service.operations.seals import find_destination, run_due_seals
from surefoot.service.single_sign_on import Provider
from surefoot.service.trial.api_models import ApiError, error_body
from surefoot.service.trial.states import context_to_state
from surefoot.service.trial.trial import Trial, check_servable, is_sandbox, open_trial
from surefoot.service.updates.schedule import tick
from surefoot.study import Study
from surefoot.version import __version__

SCHEDULE_SECONDS = 15.0
MESSAGE_SECONDS = 5.0
BACKUP_SECONDS = 60.0
SEAL_SECONDS = 15.0
PARTICIPANT_SHARE = 0.1
"""Of a key's requests, for decisions of one participant: one device cannot use up what is for all."""
CODES = {404: "not_found", 405: "method_not_allowed", 400: "bad_request", 415: "unsupported_media_type"}


def create_app(trial: Trial, name: str = "", seals_to: str | None = None) -> FastAPI:
    """The application of one trial; `name` distinguishes the metrics of several trials of one server, `seals_to` is the file
    or the URL that gets its seals."""
    check_servable(trial.study)
    sandbox = is_sandbox()

    watch = trial.watch

    def with_right_clock(run: Callable[[datetime], object]) -> None:
        """Also before the schedule has noticed that the clock was set."""
        moment = now()
        if watch.believe(moment) == moment:
            run(moment)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        jobs = [Job("the schedule", lambda: tick(trial, now(), watch), SCHEDULE_SECONDS)]
        if not sandbox:
            jobs += [
                Job("messages", lambda: send_messages(trial), MESSAGE_SECONDS),
                Job("backups", lambda: with_right_clock(partial(run_nightly_backup, trial)), BACKUP_SECONDS),
            ]
        if seals_to is not None and not sandbox:
            jobs.append(Job("seals", lambda: with_right_clock(partial(run_due_seals, trial, seals_to)), SEAL_SECONDS))
        # At once after a start: what a power cut interrupted is found now.
        with repeat_jobs(*jobs):
            yield
        app.state.recorder.close()
        trial.close()

    app = FastAPI(
        title=f"{trial.settings.title} (sandbox)" if sandbox else trial.settings.title,
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # every request would ask whether anybody listens
    )
    limits = trial.settings.limits
    app.state.trial = trial
    app.state.rate_limiter = RateLimiter(limits.requests_per_second)
    app.state.participant_limiter = RateLimiter(PARTICIPANT_SHARE * limits.requests_per_second)
    app.state.recorder = DecisionRecorder(trial)
    app.state.key_lookups = KeyLookups(trial.database)
    app.state.metrics = Metrics(trial, name)
    app.state.provider = None if trial.settings.oidc is None else Provider(trial.settings.oidc)
    # Imports that the first request would otherwise wait for.
    context_to_state(trial.study, {}, dict.fromkeys(trial.study.derived_states, 0.0))
    for router in (routes.router, routes.public, dashboard.router):
        # Not by `include_router`, whose routers are searched twice for every request.
        app.router.routes.extend(router.routes)
    app.state.description = Description(app, trial)
    headers = [*list_security_headers(), *([(b"x-surefoot-sandbox", b"true")] if sandbox else [])]
    size = 1024 * limits.body_kilobytes
    # FastAPI would put two more layers around them, which have nothing left to do.
    errors: Any = dict.fromkeys((HTTPException, RequestValidationError, *DATABASE_FAULTS), _answer_error)
    answering = ExceptionMiddleware(AsyncExitStackMiddleware(app.router), handlers=errors)
    app.middleware_stack = RequestMiddleware(answering, size, app.state.metrics, headers)
    return app


def from_environment() -> FastAPI:
    """What every worker of `surefoot serve` runs; the database URL may hold a password and so stays off command lines."""
    trial = open_trial(Study.load(os.environ["SUREFOOT_STUDY"]), os.environ["SUREFOOT_DATABASE"])
    return create_app(trial, seals_to=find_destination(trial.database))


async def _answer_error(request: Request, error: Exception) -> Response:
    """The same shape for every error; a page for a person who has opened an unknown address."""
    if isinstance(error, RequestValidationError):
        # The first thing that is wrong, without repeating what was sent.
        return JSONResponse(error_body("invalid", *describe_validation_error(error.errors()[0])), 422)
    if isinstance(error, ApiError):
        body = error_body(error.code, str(error.detail), error.field)
        return JSONResponse(body, error.status_code, error.headers)
    if isinstance(error, HTTPException):
        is_browser = "text/html" in request.headers.get("accept", "")
        if is_browser and not request.url.path.startswith("/api/"):
            words = "there is no such page" if error.status_code == 404 else str(error.detail)
            about = {"study": request.app.state.trial.settings.title, "root": request.scope.get("root_path", "")}
            return render_page("error", error.status_code, **about, message=words)
        body = error_body(CODES.get(error.status_code, "refused"), str(error.detail))
        return JSONResponse(body, error.status_code, error.headers)
    # The database is away: nothing was acknowledged, and sending it again is safe.
    request.state.cause = describe_fault(error)
    body = error_body("no_database", "the database cannot be reached; send it again")
    return JSONResponse(body, 503, {"Retry-After": "1"})

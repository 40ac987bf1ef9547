"""Several studies on one server: `/studies/NAME/…`, each with its own database, keys, sessions, secret and schedule.

A study's application is the one that serves it alone. It sees paths without `/studies/NAME`; only its links begin with that.
"""

import asyncio
import os
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from pydantic import Field, model_validator
from starlette.responses import RedirectResponse, Response

from surefoot.service.app import create_app
from surefoot.service.dashboard.pages import list_security_headers, render_page
from surefoot.service.database.databases import identify
from surefoot.service.operations.seals import find_destination
from surefoot.service.trial.api_models import error_body
from surefoot.service.trial.trial import Trial, open_trial
from surefoot.study import Study
from surefoot.study.toml_file import Section, parse_toml, read_text

VARIABLE = "SUREFOOT_STUDIES"
"""Names the list of studies to workers."""
ADDRESS = re.compile(r"(/studies/([a-z0-9-]{1,40}))(/.*)?")
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]


class ServedStudy(Section):
    """A study file and its trial."""

    study: str
    """The study file, relative to the list."""
    database: str
    """The URL of its database, which no other study has."""


class StudyList(Section):
    """The studies of a server, by the names in their addresses."""

    studies: Annotated[dict[Name, ServedStudy], Field(min_length=1)]

    @model_validator(mode="after")
    def _have_their_own(self) -> "StudyList":
        names = [identify(served.database) for served in self.studies.values()]
        if len(set(names)) < len(names):
            raise ValueError("two studies have the same database; every trial needs its own")
        return self


def open_trials(path: Path) -> dict[str, Trial]:
    """The trials of a list of studies, by name."""
    text = read_text(path, remedy="write [studies.NAME] with study and database for every study")
    listed = parse_toml(StudyList, text, str(path))
    trials: dict[str, Trial] = {}
    try:
        for name, served in listed.studies.items():
            trials[name] = open_trial(Study.load(path.parent / served.study), served.database)
    except BaseException:
        for trial in trials.values():
            trial.close()
        raise
    return trials


def from_environment() -> "StudyServer":
    """What every worker of `surefoot serve --studies` runs."""
    return StudyServer(open_trials(Path(os.environ[VARIABLE])))


class StudyServer:
    """An ASGI application that hands every request to the application of its study."""

    def __init__(self, trials: Mapping[str, Trial]) -> None:
        self.apps: dict[str, FastAPI] = {
            name: create_app(trial, name, find_destination(trial.database, name)) for name, trial in trials.items()
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        address = ADDRESS.fullmatch(scope["path"])
        app = None if address is None else self.apps.get(address[2])
        if address is None or app is None or address[3] is None:
            response = await self._answer(scope["path"]) if app is None else RedirectResponse(f"{scope['path']}/", 307)
            response.raw_headers += list_security_headers()
            await response(scope, receive, send)
            return
        inner = {**scope, "path": address[3], "raw_path": address[3].encode(), "root_path": address[1]}
        await app(inner, receive, send)

    async def _live(self, receive: Any, send: Any) -> None:
        """Start and stop the jobs of all studies."""
        async with AsyncExitStack() as running:
            await receive()
            for app in self.apps.values():
                await running.enter_async_context(app.router.lifespan_context(app))
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, path: str) -> Response:
        """The list of studies, how the server is, or nothing."""
        if path == "/healthz":
            return JSONResponse({"status": "alive"})
        if path == "/readyz":
            checks = [app.state.recorder.check_readiness() for app in self.apps.values()]
            errors = await asyncio.gather(*checks, return_exceptions=True)
            failed = [name for name, error in zip(self.apps, errors, strict=True) if error is not None]
            words = f"cannot decide: {', '.join(failed)}; each study has its own /studies/NAME/readyz"
            return JSONResponse(error_body("not_ready", words), 503) if failed else JSONResponse({"status": "ready"})
        if path != "/":
            return JSONResponse(error_body("not_found", "there is no such page; addresses begin with /studies/NAME/"), 404)
        titles = {name: app.state.trial.settings.title for name, app in self.apps.items()}
        return render_page("studies", study="", titles=titles)

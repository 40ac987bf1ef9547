"""What the pages take from a request: who looks at them, and what the address says."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends, Path, Query
from fastapi.responses import RedirectResponse

from surefoot.service.dashboard.page_access import (
    BOARD,
    READERS,
    TEAM,
    Viewer,
    find_acting_admin,
    read_form,
    require_role,
)
from surefoot.service.trial.api_errors import ApiError

Reader = Annotated[Viewer, Depends(require_role(READERS))]
TeamMember = Annotated[Viewer, Depends(require_role(TEAM))]
BoardMember = Annotated[Viewer, Depends(require_role(BOARD))]
Admin = Annotated[Viewer, Depends(require_role(("admin",)))]
Actor = Annotated[Viewer, Depends(find_acting_admin)]
Fields = Annotated[dict[str, str], Depends(read_form)]
Id = Annotated[int, Path(ge=1, lt=2**31)]
Change = Literal["pause", "resume"]
Before = Annotated[int | None, Query(ge=0, lt=2**31)]
Search = Annotated[str, Query(max_length=64)]
ParticipantId = Annotated[str, Query(max_length=64)]
By = Literal["arrived", "decided"]
"""Whether a day counts what arrived in it, or the decision points of that day, whenever they arrived."""
MOMENTS = {"arrived": "received_at", "decided": "decided_at"}
"""The column of a decision that `By` names."""
Download = Literal["", "csv"]
"""Every page with a table can be had as a file: the same address with `download=csv`."""


def go_to(path: str) -> RedirectResponse:
    """Send the browser to a page after a form."""
    return RedirectResponse(path, 303)


def read_reason(fields: dict[str, str]) -> str:
    """Why somebody does what a form does."""
    reason = fields.get("reason", "").strip()[:200]
    if not reason:
        raise ApiError(422, "invalid", "say why; the reason stays on record")
    return reason

"""The dashboard: what the trial team sees in a browser, rendered on the server, without any script."""

# Each of these adds its pages to the router.
from surefoot.service.dashboard import (
    board_pages,
    boundary_pages,
    participant_pages,
    policy_pages,
    sign_in_pages,
    trial_pages,
)
from surefoot.service.dashboard.pages import router

__all__ = ["board_pages", "boundary_pages", "participant_pages", "policy_pages", "router", "sign_in_pages", "trial_pages"]

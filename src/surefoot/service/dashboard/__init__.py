"""The dashboard: what the trial team sees in a browser, rendered on the server, without any script."""

# Each of these adds its pages to the router.
from surefoot.service.dashboard import participant_routes, policy_routes, sign_in_routes, trial_routes, update_routes
from surefoot.service.dashboard.page_access import router

__all__ = ["participant_routes", "policy_routes", "router", "sign_in_routes", "trial_routes", "update_routes"]

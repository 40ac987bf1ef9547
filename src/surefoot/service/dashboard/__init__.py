"""The dashboard: what the trial team sees in a browser, rendered on the server, without any script."""

from surefoot.service.dashboard.routes import router

__all__ = ["router"]

"""From what teams have to decision points: windows over sensor and survey files, in each participant's time zone."""

from typing import TYPE_CHECKING, Any

from surefoot.errors import InputError
from surefoot.linking.plan import LinkPlan

if TYPE_CHECKING:
    from surefoot.linking.linked import Linked
    from surefoot.linking.linking import compute_context, link

__all__ = ["LinkPlan", "Linked", "compute_context", "link"]


def __getattr__(name: str) -> Any:
    # Exports are read without Polars, which is an extra.
    if name not in __all__:
        raise AttributeError(f"module 'surefoot.linking' has no attribute '{name}'")
    try:
        from surefoot.linking import linked, linking
    except ModuleNotFoundError as error:
        if error.name != "polars":
            raise
        raise InputError("linking raw files needs Polars; install it with: pip install 'surefoot[link]'") from error
    return getattr(linked if name == "Linked" else linking, name)

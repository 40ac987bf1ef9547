"""Profiles of the platforms whose exports are read: one file per platform, in a registry."""

# Importing a profile registers it.
from surefoot.linking.profiles import (  # noqa: F401  # noqa: F401
    apple_health,
    beiwe,
    decision_tables,
    fitabase,
    fitbit,
    mindlamp,
    mpath,
    mydatahelps,
    qualtrics,
    radar_base,
    redcap,
)
from surefoot.linking.profiles.files import ExportFile, list_export_files
from surefoot.linking.profiles.profile import PROFILES, Profile, Streams, register_profile

__all__ = ["PROFILES", "ExportFile", "Profile", "Streams", "list_export_files", "register_profile"]

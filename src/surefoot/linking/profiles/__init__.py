"""Profiles of the platforms whose exports are read: one file per platform, in a registry."""

from surefoot.linking.profiles import (
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

__all__ = [
    "PROFILES",
    "ExportFile",
    "Profile",
    "Streams",
    "apple_health",
    "beiwe",
    "decision_tables",
    "fitabase",
    "fitbit",
    "list_export_files",
    "mindlamp",
    "mpath",
    "mydatahelps",
    "qualtrics",
    "radar_base",
    "redcap",
    "register_profile",
]

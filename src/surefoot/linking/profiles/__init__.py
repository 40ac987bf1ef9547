"""Profiles of the platforms whose exports are read: one file per platform, in a registry."""

from surefoot.linking.profiles import fitabase, qualtrics, redcap
from surefoot.linking.profiles.files import ExportFile, list_export_files
from surefoot.linking.profiles.profile import PROFILES, Profile, Streams, register_profile

__all__ = [
    "PROFILES",
    "ExportFile",
    "Profile",
    "Streams",
    "fitabase",
    "list_export_files",
    "qualtrics",
    "redcap",
    "register_profile",
]

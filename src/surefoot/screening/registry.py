"""All detectors, in the order in which they look: what one has marked missing the next does not see."""

from __future__ import annotations

from surefoot.screening.careless import Careless
from surefoot.screening.clock import Clock
from surefoot.screening.codes import Codes
from surefoot.screening.detectors import Detector
from surefoot.screening.level_shifts import LevelShifts
from surefoot.screening.not_worn import NotWorn
from surefoot.screening.stuck import Stuck
from surefoot.screening.units import Units

DETECTORS: dict[str, type[Detector]] = {
    detector.name: detector for detector in (Clock, Codes, NotWorn, Stuck, Units, Careless, LevelShifts)
}

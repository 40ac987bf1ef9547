"""Blocks for detectors: columns of participants in time order."""

from __future__ import annotations

import numpy as np

from surefoot.screening.detectors import Column, Layout, ScreenBatch


def make_block(columns, values, *, time=None, clock=False, questionnaires=()):
    """From values (columns, participants, decision points)."""
    values = np.asarray(values, dtype=float)
    shape = values.shape[1:]
    rows = np.arange(np.prod(shape)).reshape(shape)
    moments = np.broadcast_to(np.arange(shape[1], dtype=float), shape) if time is None else np.asarray(time, dtype=float)
    layout = Layout(tuple(columns), questionnaires=tuple(questionnaires), clock=clock)
    return ScreenBatch.pad_rows(layout, values.reshape(len(values), -1), moments.ravel(), rows)


def one(name="x", role="state", device=None):
    return Column(name, role, device)


def flagged(detector, block, usual=None):
    """Flags of every column and reason: {(column, reason): (participants, decision points)}."""
    usual = detector.learn(block) if usual is None else usual
    found = detector.find(block, usual)
    return {(detection.column, detection.reason): detection.flagged for detection in found if detection.flagged.any()}

#!/usr/bin/env python3
"""Prints the scalars of a run folder as TensorBoard sees them: read_events.py FOLDER (needs tensorboard)."""
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0}).Reload()
for tag in sorted(events.Tags()["scalars"]):
    for point in events.Scalars(tag):
        print(tag, point.step, f"{point.value:.9g}")

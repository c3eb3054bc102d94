"""The run log: a folder for each run, with configuration, seed, versions, commit and metrics."""

from weft.experiments.run import Run, experiment
from weft.experiments.stored import Stored, find, runs

__all__ = ["Run", "Stored", "experiment", "find", "runs"]

"""Where the time goes: PyTorch's profiler, on what `weft.record` keeps."""

from weft.profiler.averages import EventList, FunctionEvent, FunctionEventAvg
from weft.profiler.profiling import (
    ProfilerActivity,
    kineto_available,
    profile,
    record_function,
    supported_activities,
)
from weft.profiler.schedules import ProfilerAction, schedule, tensorboard_trace_handler

__all__ = [
    "EventList", "FunctionEvent", "FunctionEventAvg", "ProfilerAction", "ProfilerActivity",
    "kineto_available", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip

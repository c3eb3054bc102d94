"""What writing a program as ONNX raises."""

from __future__ import annotations


class OnnxExporterError(RuntimeError):
    """PyTorch's name for what writing a model raises."""


class NotOnnx(OnnxExporterError):
    """What has no form in ONNX.

    Attributes:
        reason: what stands there.
        hint: what to do instead; empty where there is nothing to say.
        place: function, file and line; empty where they are not known.
    """

    def __init__(self, reason: str, hint: str = "", place: str = "") -> None:
        super().__init__(reason, hint, place)
        self.reason, self.hint, self.place = reason, hint, place

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        hint = f". Hint: {self.hint}" if self.hint else ""
        return f"[onnx.export] expected what ONNX has, got {place}{self.reason}{hint}"

    def at(self, place: str) -> NotOnnx:
        """The same with its place, unless it has one."""
        return self if self.place else type(self)(self.reason, self.hint, place)

    def again(self) -> NotOnnx:
        """The same, of another who reads it."""
        return type(self)(self.reason, self.hint)


class NeedsKnown(NotOnnx):
    """What ONNX wants as a constant, and only a run knows."""

    def __init__(self, reason: str, hint: str = "", place: str = "") -> None:
        if " that only a run knows" not in reason:
            reason = f"{reason} that only a run knows, where ONNX wants a constant"
        super().__init__(
            reason, hint or "keep that size fixed: leave it out of dynamic_shapes", place
        )


class Raises(NotOnnx):
    """What raises while the program is walked on examples: with others it may not."""


class Unsupported(RuntimeError):
    """What a model of ONNX has that `weft.onnx.load` does not offer.

    Attributes:
        found: all of it, a line each: the operator, the node and the reason.
    """

    def __init__(self, found: list[str]) -> None:
        super().__init__(found)
        self.found = found

    def __str__(self) -> str:
        shown = "".join(f"\n  {line}" for line in self.found)
        return f"[onnx.load] expected a model of what weft has of ONNX, got{shown}"


class TooDeep(NotOnnx):
    """Graphs within graphs, more than a file can have."""

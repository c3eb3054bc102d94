"""`Report`: what `watch` found out about the layers of one step, and the flags that follow."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from weft import _C, Tensor

SAMPLE = 1024  # elements of each tensor that mean, std, min and max are of
VANISHING = 1e-4  # of the largest that a layer has: gradient norm to weight norm
EXPLODING = 1e2  # gradient norm to weight norm
DEAD = 0.5  # of a layer's units


@dataclass
class Numbers:
    """mean, std, min and max of the finite ones among the elements that were looked at, how many
    those were, and how many nan or infinite."""

    counted: int = 0
    nan: int = 0
    inf: int = 0
    mean: float = math.nan
    std: float = math.nan
    min: float = math.nan
    max: float = math.nan

    def add(self, t: Tensor) -> bool:
        """Adds a tensor's; False if its value is not there, or it is not floating."""
        found = _C._statistics(t, SAMPLE)
        if found is None:
            return False
        counted, nan, inf, mean, std, least, most = found
        new = counted - nan - inf
        old = self.counted - self.nan - self.inf
        self.counted, self.nan, self.inf = self.counted + counted, self.nan + nan, self.inf + inf
        if new and not old:
            self.mean, self.std, self.min, self.max = mean, std, least, most
        elif new:
            total, apart = old + new, mean - self.mean
            square = (old * self.std**2 + new * std**2 + apart**2 * old * new / total) / total
            self.mean += apart * new / total
            self.std = math.sqrt(square)
            self.min, self.max = min(self.min, least), max(self.max, most)
        return True


@dataclass
class Layer:
    """What a layer did in a step that was looked at.

    Attributes:
        name: its path in the model.
        type: its class.
        calls: how often it was called.
        line: of its last call, in the user's program.
        activations, gradients, weights: of its outputs, and of its own parameters.
        gradient_ratio: the norm of the gradients by that of the weights.
        update_ratio: the norm of the change of the weights by their norm before.
        dead: the share of units that were zero wherever they were computed; nan if no output had
            units, or too few positions.
    """

    name: str
    type: str
    calls: int = 0
    line: str = ""
    activations: Numbers = field(default_factory=Numbers)
    gradients: Numbers = field(default_factory=Numbers)
    weights: Numbers = field(default_factory=Numbers)
    gradient_ratio: float = math.nan
    update_ratio: float = math.nan
    dead: float = math.nan


@dataclass(frozen=True)
class Flag:
    """Something to look at.

    Attributes:
        step: how many steps had ended before.
        kind: "nan", "dead units", "vanishing gradient" or "exploding gradient".
        layer: the path of the layer where it begins: for gradients the one nearest to the loss.
        line: where that layer was called, or of the op that made the first nan.
        text: what was found.
    """

    step: int
    kind: str
    layer: str
    line: str
    text: str

    def __str__(self) -> str:
        at = f" ({self.line})" if self.line else ""
        return f"step {self.step}: {self.kind} in {self.layer or 'the model'}{at}: {self.text}"


class Report:
    """A step that was looked at: `print` shows a table.

    Attributes:
        step: how many steps had ended before.
        layers: a `Layer` for each, in the order of their first calls.
        flags: what was found in this step.
    """

    def __init__(self, step: int, layers: list[Layer], flags: list[Flag]) -> None:
        self.step, self.layers, self.flags = step, layers, flags

    def __getitem__(self, name: str) -> Layer:
        """The layer of a name.

        Raises:
            KeyError: there is none.
        """
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise KeyError(name)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __contains__(self, name: object) -> bool:
        """Whether there is a layer of a name."""
        return any(name == layer.name or name is layer for layer in self.layers)

    def metrics(self) -> dict[str, float]:
        """Numbers by names such as "encoder.0/update_ratio", as `Run.log` of the run log takes."""
        out: dict[str, float] = {}
        for layer in self.layers:
            found = {
                "activation_mean": layer.activations.mean, "activation_std": layer.activations.std,
                "gradient_ratio": layer.gradient_ratio, "update_ratio": layer.update_ratio,
                "dead": layer.dead,
            }  # fmt: skip
            out.update({f"{layer.name}/{k}": v for k, v in found.items() if v == v})
        return out

    def __str__(self) -> str:
        rows = [
            ["layer", "type", "calls", "activation mean", "std", "gradient std", "grad/weight",
             "update/weight", "dead", "line"]
        ]  # fmt: skip
        for layer in self.layers:
            bad = layer.activations.nan + layer.activations.inf
            numbers = [layer.activations.mean, layer.activations.std, layer.gradients.std,
                       layer.gradient_ratio, layer.update_ratio, layer.dead]  # fmt: skip
            mean, *others = ("" if v != v else f"{v:.3g}" for v in numbers)
            mean = "nan or inf" if bad else mean
            name = layer.name or "(model)"
            calls = str(layer.calls) if layer.calls else "not called"
            rows.append([name, layer.type, calls, mean, *others, layer.line])
        widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
        table = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([f"step {self.step}", *table, *map(str, self.flags)])

    def __repr__(self) -> str:
        return f"<Report of step {self.step}: {len(self.layers)} layers, {len(self.flags)} flags>"


def flags_of(report: Report) -> Iterator[Flag]:
    layers = report.layers
    for layer in layers:
        for what in ("activations", "weights", "gradients"):
            numbers = getattr(layer, what)
            if numbers.nan or numbers.inf:
                text = f"{numbers.nan} nan and {numbers.inf} infinite of {numbers.counted} {what}"
                yield Flag(report.step, "nan", layer.name, layer.line, text)
                return  # what comes after has it from there
    for layer in layers:
        if layer.dead >= DEAD:
            text = f"{layer.dead:.0%} of its units were zero in all {layer.calls} calls"
            yield Flag(report.step, "dead units", layer.name, layer.line, text)
    known = [layer for layer in layers if layer.gradient_ratio == layer.gradient_ratio]
    # not called and without a gradient: not a part of this step, and nothing vanished
    known = [layer for layer in known if layer.calls or layer.gradient_ratio]
    largest = max((layer.gradient_ratio for layer in known), default=0.0)
    small = [layer for layer in known if layer.gradient_ratio < VANISHING * largest]
    large = [layer for layer in known if layer.gradient_ratio > EXPLODING]
    for kind, found in (("vanishing gradient", small), ("exploding gradient", large)):
        if found:
            first = found[-1]  # backward comes to it before the others
            text = f"its norm is {first.gradient_ratio:.2g} of that of the weights"
            if found is small:
                text += f", {largest:.2g} at most in other layers"
            if len(found) > 1:
                text += f"; so it is in {len(found)} layers"
            yield Flag(report.step, kind, first.name, first.line, text)

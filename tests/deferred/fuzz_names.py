"""What fuzzed programs find by name besides their arguments, and the ways to run them."""

import contextlib
import dataclasses
import functools
import importlib

import weft


def one_by_one(fn):
    """What weft.autobatch means where all began: each runs, then the first error is raised."""

    def run_all(examples):
        results, errors = [], []
        for example in examples:
            try:
                results.append(fn(example))
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return results

    return run_all


def batched(fn, examples):
    return getattr(weft, "autobatch", one_by_one)(fn)(examples)


def two_at_once(fn, examples):
    return weft.autobatch(fn, max_batch=2)(examples)


def batched_with(setter, value, fn, examples):
    before = setter(value)
    try:
        return weft.autobatch(fn)(examples)
    finally:
        setter(before)


def small_budget(fn, examples):
    """Flushes come wherever three calls wait."""
    return batched_with(weft._C._set_budget, 3, fn, examples)


def large_at_once(fn, examples):
    """Calls on nine elements or more run at once, if they can, beside those that wait."""
    return batched_with(weft._C._set_large, 9, fn, examples)


def little_ahead(fn, examples):
    """A batch whose results wait for their users is cut into runs of five elements."""
    return batched_with(weft._C._set_ahead, 5, fn, examples)


def own_streams(fn, examples):
    """Each example draws from a stream of its own."""
    return weft.autobatch(fn, rng="per_example")(examples)


def own_streams_in_turn(fn, examples):
    weft.autobatch.enabled = False
    try:
        return own_streams(fn, examples)
    finally:
        weft.autobatch.enabled = True


WAYS = [batched, batched, little_ahead, two_at_once, small_budget, large_at_once, own_streams]


@dataclasses.dataclass
class Pair:
    """What a program may return."""

    one: object
    other: object


class Odd(Exception):
    """An error with arguments of its own."""

    def __init__(self, a, b):
        super().__init__(a, b)


@functools.cache
def names_for(lib):
    """The names of programs over one library."""

    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    class Scaled(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, by):
            ctx.by = by
            return x * by

        @staticmethod
        def backward(ctx, g):
            return g * ctx.by, None

    class Halves(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[..., :2] * 1, x[..., 2:] * 0.5

        @staticmethod
        def backward(ctx, a, b):
            return lib.cat([a, b * 0.5], -1)

    class SavedExp(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x.exp()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    class Doubled(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def watched(t, log):
        """Logs the gradient that arrives."""
        t = t * 1
        if t.requires_grad:
            t.register_hook(lambda g: log.append(g.sum().item()))
        return t

    def hooked(t):
        t = t * 1
        if t.requires_grad:
            t.register_hook(lambda g: g * 0.5)
        return t

    def checkpoint(f, t, reentrant=False):
        utils = importlib.import_module(f"{lib.__name__}.utils.checkpoint")
        return utils.checkpoint(f, t, use_reentrant=reentrant)

    def checkpointed(f, t):
        return checkpoint(f, t, reentrant=True)

    def inner(f, rows):
        return list(getattr(lib, "autobatch", one_by_one)(f)(list(rows)))

    return {
        "weft": lib, "F": lib.nn.functional, "Odd": Odd, "cube": Cube.apply, "hooked": hooked,
        "checkpoint": checkpoint, "checkpointed": checkpointed, "inner": inner, "Pair": Pair,
        "scaled": Scaled.apply, "halves": Halves.apply, "saved_exp": SavedExp.apply,
        "doubled": Doubled.apply, "watched": watched,
        "deferred": getattr(lib, "deferred", contextlib.nullcontext),
    }  # fmt: skip

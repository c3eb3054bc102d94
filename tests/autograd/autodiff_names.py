"""What the programs of autodiff_fuzz.py may call beside the library `t`, the same for each library.

Hooks and custom Functions note in a log what they were given.
"""

import functools


def plain(value):
    """A value as plain data: tensors as (shape, dtype, wants gradient, numbers)."""
    if hasattr(value, "requires_grad"):
        kind = str(value.dtype).split(".")[-1]
        return tuple(value.shape), kind, value.requires_grad, value.detach().tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


class Log(list):
    """What a run noted, in order."""

    def note(self, name, *values):
        self.append((name, plain(values)))


def tensors(names, lib):
    def leaf(*sizes, kind="float64", grad=True, at=0, order=None):
        """Numbers between -1.5 and 1.5, none twice; `order`: how the dimensions lie in memory."""
        import math

        sizes, back = tuple(sizes), None
        if order is not None:
            back = [order.index(d) for d in range(len(sizes))]
            sizes = tuple(sizes[d] for d in order)
        count = math.prod(sizes)
        values = [round(1.5 * math.sin(1.7 * i + 0.13 * i * i + 0.9 * at + 0.4), 9)
                  for i in range(count)]  # fmt: skip
        if kind.startswith("complex"):
            values = [complex(v, math.cos(2.3 * i + at)) for i, v in enumerate(values)]
        out = lib.tensor(values, dtype=getattr(lib, kind)).reshape(sizes)
        out = out.detach() if back is None else out.permute(back).detach()
        return out.requires_grad_() if grad else out

    def loss(*tensors):
        total = 0
        for x in tensors:
            if x.is_complex():
                x = x.real * 1.5 + x.imag
            total = total + (x * x + x).sum()
        return total

    names |= {"leaf": leaf, "loss": loss}


def hooks(names, log):
    def look(name):
        """A tensor's hook that notes the gradient."""
        return lambda g: log.note(name, g)

    def scaled(name):
        def hook(g):
            log.note(name, g)
            return None if g is None else g * 3

        return hook

    def after(name):
        """A leaf's hook after its gradient was added."""
        return lambda leaf: log.note(name, leaf.grad, leaf.is_leaf)

    def node(name):
        def hook(*grads):
            log.note(name, *grads)

        return hook

    def node_scaled(name):
        def hook(given, *rest):
            log.note(name, given, *rest)
            return tuple(None if g is None else g * 2 for g in given)

        return hook

    def hook(x, f):
        # PyTorch crashes for a view that its base made part of the graph, unless it was asked.
        return x.register_hook(f) if x.grad_fn else x.register_hook(f)

    def see(x):
        """Notes what is known of a tensor now."""
        log.note("see", x.requires_grad, x.is_leaf, x.grad_fn is None, x.detach())

    names |= {"look": look, "scaled": scaled, "after": after, "node": node,
              "node_scaled": node_scaled, "hook": hook, "see": see}  # fmt: skip


def functions(names, lib, log):
    once = lib.autograd.function.once_differentiable

    class Logged(lib.autograd.Function):
        @classmethod
        def note(cls, ctx, *grads):
            log.note(cls.__name__, list(ctx.needs_input_grad), *grads)

    class Scale(Logged):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            Scale.note(ctx, g)
            return g * 3  # not the derivative: so that it shows which rule ran

    class Save(Logged):
        @staticmethod
        def forward(ctx, x):
            y = x.sin()
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            Save.note(ctx, g)
            return g * (x.cos() + y * 0.5)

    class Dirty(Logged):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(2)
            return x

        @staticmethod
        def backward(ctx, g):
            Dirty.note(ctx, g)
            return g * 5

    class DirtySaved(Logged):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(x)
            x.tanh_()
            ctx.save_for_backward(x, y)
            return x

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            DirtySaved.note(ctx, g)
            return g * (1 - x * x), g.sum() * y

    class DirtyTwo(Logged):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2), x * 3

        @staticmethod
        def backward(ctx, g, h):
            DirtyTwo.note(ctx, g, h)
            return g * 2 + h * 6

    class Fixed(Logged):
        @staticmethod
        def forward(ctx, x):
            a, b = x * 2, x * 3
            ctx.mark_non_differentiable(b)
            return a, b

        @staticmethod
        def backward(ctx, g, h):
            Fixed.note(ctx, g, h)
            return g * 2

    class Lazy(Logged):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x.exp()

        @staticmethod
        def backward(ctx, g, h):
            Lazy.note(ctx, g, h)
            parts = [part for part in (g, h) if part is not None]
            return sum(parts[1:], parts[0]) if parts else None

    class Eager(Logged):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x.exp()

        @staticmethod
        def backward(ctx, g, h):
            Eager.note(ctx, g, h)
            return g * 2 + h

    class View(Logged):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            View.note(ctx, g)
            return g * 4

    class Part(Logged):
        @staticmethod
        def forward(ctx, x):
            ctx.shape = x.shape
            return x[:1]

        @staticmethod
        def backward(ctx, g):
            Part.note(ctx, g)
            out = lib.zeros(ctx.shape, dtype=g.dtype)
            out[:1] = g
            return out

    class Same(Logged):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            Same.note(ctx, g)
            return g * 4

    class Two(Logged):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            Two.note(ctx, g)
            return (g * y if ctx.needs_input_grad[0] else None), g * x

    class Nothing(Logged):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            Nothing.note(ctx, g)
            return None, g

    class Once(Logged):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            Once.note(ctx, g)
            return 2 * x * g

    class Inner(Logged):
        """A backward pass in backward."""

        @staticmethod
        def forward(ctx, x):
            with lib.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = ctx.x.sin() * ctx.x
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, g):
            Inner.note(ctx, g)
            return lib.autograd.grad(ctx.y, ctx.x, g, retain_graph=True)[0]

    class Split(Logged):
        """With setup_context; an argument that is no tensor."""

        @staticmethod
        def forward(x, factor):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, g):
            Split.note(ctx, g, *ctx.saved_tensors)
            return g * ctx.factor, None

    every = [Scale, Save, Dirty, DirtySaved, DirtyTwo, Fixed, Lazy, Eager, View, Part, Same, Two,
             Nothing, Once, Inner, Split]  # fmt: skip
    names |= {cls.__name__: cls for cls in every}


def bodies(names, lib, log):
    def body(x):
        return x.sin() * x

    def body_two(x, y):
        y = x * y + 1
        y.mul_(2)
        return y

    def checkpoint(f, *args, again=False):
        return lib.utils.checkpoint.checkpoint(f, *args, use_reentrant=again)

    def pack(x):
        return x.detach().clone(), x.requires_grad

    def unpack(packed):
        return packed[0].clone()

    names |= {"body": body, "body_two": body_two, "checkpoint": checkpoint,
              "pack": pack, "unpack": unpack}  # fmt: skip


@functools.cache
def names_for(lib):
    """The names of a library's programs, and the log that they write."""
    import importlib

    importlib.import_module(f"{lib.__name__}.utils.checkpoint")
    log, names = Log(), {"t": lib}
    tensors(names, lib)
    hooks(names, log)
    functions(names, lib, log)
    bodies(names, lib, log)
    return names, log

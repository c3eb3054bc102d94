"""One side of `weft run --compare`: runs a program and tells what it computes, as it does.

`python -m weft.running.observing LIBRARY SEED OUT IN FOLDER script.py ARGS... | -m MODULE ARGS...`
is started by `comparing`, once where `torch` is weft and once where it is PyTorch; OUT and IN are
descriptors of pipes. Nothing here is of either library: all goes through public names.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import io
import itertools
import os
import random
import runpy
import sys
import threading
import time
import timeit
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, ModuleType
from typing import Any, BinaryIO

import numpy as np

from weft.running.rewriting import OBSERVER, Files, Finder, Site
from weft.running.wire import Event, Leaf, Reply, receive, send

__all__ = ["Observer", "main"]

#: How far values are looked into, and how many tensors of one are taken.
_DEPTH, _MOST = 4, 256
_CLOCKS = "time perf_counter monotonic process_time thread_time".split()
_TRANSFORMS = "vmap grad grad_and_value jacrev jacfwd hessian jvp vjp linearize".split()
_NOT_LOOKED_AT = (bool, int, float, complex, str, bytes, range, type(None), type)


class Observer:
    """What the rewritten files call."""

    def __init__(self, library: Any, files: Files, out: BinaryIO, answers: BinaryIO) -> None:
        self._library, self._files = library, files
        self._out, self._answers = out, answers
        self._quiet, self._is_size = 0, False
        self._operand: Any = None
        self._sent: dict[int, tuple[Any, int]] = {}
        self._modules: dict[int, Any] = {}
        self._leaves: dict[int, tuple[Any, int]] = {}
        self._numbers = itertools.count(1)
        self._process, self._thread = os.getpid(), threading.get_ident()

    # ---- what the files call

    def value(self, k: int, value: Any) -> Any:
        """The value of the expression at site k; it goes on as it is."""
        if not isinstance(value, _NOT_LOOKED_AT) and self._is_here():
            self._guarded(self._tell_value, self._files.sites[k], value)
        return value

    def state(self, k: int, value: Any) -> Any:
        """The same after `step`: the parameters are told too."""
        self.value(k, value)
        if self._is_here():
            self._guarded(self._tell_state, self._files.sites[k])
        return value

    def begin(self, k: int) -> int:
        """`backward` begins: engines may call hooks and functions of the user's in other orders."""
        self._quiet += 1
        return k

    def backward(self, k: int, value: Any) -> Any:
        """`backward` has run: the gradients are told."""
        self._quiet -= 1
        return self.state(k, value)

    def emptied(self, k: int, value: Any) -> Any:
        """A result without values, which gets zeros: that which memory held is no difference."""
        if self._is_here() and isinstance(value, self._library.Tensor):
            self._guarded(value.data.zero_)
        return self.value(k, value)

    def size(self, k: int, value: Any) -> Any:
        """The first argument of `torch.Tensor`: sizes, or values."""
        self._is_size = isinstance(value, (int, self._library.Size))
        return value

    def made(self, k: int, value: Any) -> Any:
        """What `torch.Tensor` has made."""
        sized, self._is_size = self._is_size, False
        return self.emptied(k, value) if sized else self.value(k, value)

    def operand(self, k: int, value: Any) -> Any:
        """What `sort` or its like may put in order."""
        if isinstance(value, self._library.Tensor):
            self._operand = value
        return value

    def ordered(self, k: int, value: Any) -> Any:
        """What `sort` or its like has made: told with the operand, as of two equal values either
        may come first."""
        operand, self._operand = self._operand, None
        if operand is None:
            return self.value(k, value)
        if self._is_here():
            found = [("its operand", operand), *self._tensors(value, "", _DEPTH)]
            self._guarded(self._tell_tensors, "order", self._files.sites[k], found)
        return value

    def branch(self, k: int, test: Any) -> bool:
        """The truth of a condition."""
        truth = bool(test)
        if self._is_here():
            self._tell(Event("branch", self._files.sites[k], truth))
        return truth

    def each(self, k: int, values: Any) -> Iterable[Any]:
        """What a loop goes over."""
        if isinstance(values, (range, str, bytes, dict)):
            return values
        return self._each(k, values)

    def _each(self, k: int, values: Any) -> Iterator[Any]:
        for value in values:
            yield self.value(k, value)

    def caught(self, k: int) -> None:
        """An error has been caught."""
        kind, error, _ = sys.exc_info()
        self._quiet = 0  # it may have left a `backward`
        if self._is_here() and kind is not None:
            self._tell(Event("caught", self._files.sites[k], kind.__name__, _text(error)))

    def unseen(self, transform: Callable[..., Any]) -> Callable[..., Any]:
        """A function as `torch.func.vmap` whose argument runs without being told of: what runs
        within is the library's own, once for all examples or for each, on tensors of its own."""

        @functools.wraps(transform)
        def transformed(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
            return transform(self.unseen_call(function), *args, **options)

        return transformed

    def unseen_call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function as `torch.jit.trace`, in which programs run as its library has them run."""

        @functools.wraps(function)
        def called(*args: Any, **options: Any) -> Any:
            self._quiet += 1
            try:
                return function(*args, **options)
            finally:
                self._quiet -= 1

        return called

    # ---- what is told

    def _is_here(self) -> bool:
        """Whether this is the thread that is compared, and not in the midst of being told."""
        return (
            self._quiet == 0
            and threading.get_ident() == self._thread
            and os.getpid() == self._process
        )

    def _guarded(self, call: Callable[..., Any], *args: Any) -> None:
        self._quiet += 1
        try:
            call(*args)
        finally:
            self._quiet -= 1

    def _tell(self, event: Event) -> Reply:
        send(self._out, event)
        return self._answer(event)

    def _answer(self, event: Event) -> Reply:
        if not event.awaits:
            return Reply()
        self._out.flush()
        reply: Reply = receive(self._answers)
        return reply

    def _tell_value(self, site: Site, value: Any) -> None:
        found = list(self._tensors(value, "", _DEPTH))[:_MOST]
        if found:
            self._tell_tensors("value", site, found)

    def _tell_state(self, site: Site) -> None:
        owners = []
        for module in filter(None, (ref() for ref in self._modules.values())):
            name = type(module).__name__
            owners += [(f"{name}.{path}", p) for path, p in module.named_parameters()]
        for number, leaf in ((n, ref()) for ref, n in list(self._leaves.values())):
            if leaf is not None:
                owners.append((f"leaf {number}", leaf))
        # a parameter may be of several modules, and is told once, by the first name
        once = {id(tensor): (name, tensor) for name, tensor in reversed(owners)}.values()
        tensors = list(reversed(list(once)))
        if site.name == "backward":
            tensors = [(f"the gradient of {name}", tensor.grad) for name, tensor in tensors]
        self._tell_tensors("state", site, tensors)

    def _tell_tensors(self, kind: str, site: Site, tensors: list[tuple[str, Any]]) -> None:
        told = [self._leaf(name, tensor, kind == "order") for name, tensor in tensors]
        state = self._library.get_rng_state().numpy().tobytes()
        event = Event(kind, site, leaves=tuple(leaf for leaf, _ in told), state=state)
        send(self._out, event)
        for _, values in told:
            if values is not None:
                self._out.write(values.reshape(-1).view(np.uint8).data)
        reply = self._answer(event)
        for k in reply.leaves:
            self._take(tensors[k][1], told[k][0])
        if reply.state:
            taken = np.frombuffer(bytearray(reply.state), np.uint8)
            self._library.set_rng_state(self._library.from_numpy(taken))

    def _take(self, tensor: Any, leaf: Leaf) -> None:
        """Gives a tensor the values that the other run has."""
        content = bytearray(self._answers.read(leaf.size))
        values = np.frombuffer(content, leaf.letter).reshape(leaf.shape)
        tensor.data.copy_(self._library.from_numpy(values))

    # ---- tensors

    def _tensors(self, value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
        if isinstance(value, self._library.Tensor):
            yield path, value
        elif isinstance(value, self._library.nn.Module):
            if self._is_new(value):
                yield from ((f"{path}.{n}" if path else n, t) for n, t in value.named_parameters())
                yield from ((f"{path}.{n}" if path else n, t) for n, t in value.named_buffers())
        elif depth and isinstance(value, (tuple, list)):
            for k, item in enumerate(value[:_MOST]):
                if not isinstance(item, _NOT_LOOKED_AT):
                    yield from self._tensors(item, f"{path}[{k}]", depth - 1)
        elif depth and isinstance(value, dict):
            for key, item in list(value.items())[:_MOST]:
                if not isinstance(item, _NOT_LOOKED_AT):
                    yield from self._tensors(item, f"{path}[{key!r}]", depth - 1)

    def _is_new(self, module: Any) -> bool:
        """Whether a module has not been told; it is known then, as long as it lives."""
        number = id(module)
        if number in self._modules:
            return False
        self._modules[number] = weakref.ref(module, lambda _: self._modules.pop(number, None))
        return True

    def _number_leaf(self, tensor: Any) -> None:
        """A leaf has the same number in both runs; which live on is each library's own."""
        number = id(tensor)
        if number not in self._leaves:
            ref = weakref.ref(tensor, lambda _: self._leaves.pop(number, None))
            self._leaves[number] = ref, next(self._numbers)

    def _leaf(
        self, name: str, tensor: Any, again: bool = False
    ) -> tuple[Leaf, np.ndarray[Any, Any] | None]:
        """What is told of a tensor, and its values if they are to be sent, `again` if need be."""
        if tensor is None:
            return Leaf(name, "None", (), False, "", 0, 0.0), None
        grad = bool(tensor.requires_grad)
        if grad and tensor.is_leaf:
            self._number_leaf(tensor)
        values = None if self._is_known(tensor) and not again else self._values(tensor)
        dtype = str(tensor.dtype).rpartition(".")[2]
        try:
            shape = tuple(int(n) for n in tensor.shape)
        except RuntimeError:  # of a lazy layer's parameter
            shape = ()
        if values is None or values.size == 0:
            return Leaf(name, dtype, shape, grad, "", 0, 0.0), None
        letter, size = values.dtype.str, values.nbytes
        return Leaf(name, dtype, shape, grad, letter, size, _scale(values)), values

    def _is_known(self, tensor: Any) -> bool:
        """Whether its values have been sent, and it has not been written since."""
        number = id(tensor)
        try:
            version = int(tensor._version)
        except RuntimeError:  # made under inference_mode
            return False
        known = self._sent.get(number)
        if known is not None and known[1] == version:
            return True
        ref = weakref.ref(tensor, lambda _: self._sent.pop(number, None))
        self._sent[number] = ref, version
        return False

    def _values(self, tensor: Any) -> np.ndarray[Any, Any] | None:
        """A copy, as a tensor that NumPy shares is not resized any more; None for what has no
        values that can be read."""
        try:
            plain = tensor.detach().resolve_conj().resolve_neg()
            if plain.dtype.is_floating_point and plain.dtype.itemsize < 4:
                plain = plain.float()
            return np.ascontiguousarray(plain.clone().numpy())
        except (RuntimeError, TypeError, NotImplementedError, ValueError):
            return None

    # ---- clocks, prints, and the end

    def clock(self, name: str, read: Callable[[], Any]) -> Callable[[], Any]:
        """A clock of `time` that shows the files of the user the same in both runs."""

        def now() -> Any:
            frame = sys._getframe(1)
            if frame.f_code.co_filename not in self._files.known or not self._is_here():
                return read()
            own = read()
            taken = self._tell(Event("clock", _place(frame, name), own)).clock
            return own if taken is None else taken

        return now

    def site_now(self, frame: FrameType | None, name: str) -> Site:
        """The nearest line of the user's."""
        while frame is not None and frame.f_code.co_filename not in self._files.known:
            frame = frame.f_back
        return Site("", 0, 0, 0, 0, name) if frame is None else _place(frame, name)

    def printed(self, text: str) -> None:
        """A line of standard output."""
        if self._is_here():
            self._tell(Event("print", self.site_now(sys._getframe(2), "print"), text=text))

    def ended(self, error: BaseException | None) -> None:
        """The program's end: by itself, by `sys.exit`, or by an error."""
        if error is None or isinstance(error, SystemExit):
            status = getattr(error, "code", 0) or 0
            self._tell(Event("exit", Site("", 0, 0, 0, 0, "exit"), status))
        else:
            frames = [f for f, _ in traceback.walk_tb(error.__traceback__)]
            known = [f for f in frames if f.f_code.co_filename in self._files.known]
            lines = [
                line for f, line in traceback.walk_tb(error.__traceback__)
                if f.f_code.co_filename in self._files.known
            ]  # fmt: skip
            site = Site("", 0, 0, 0, 0, "error")
            if known:
                site = Site(known[-1].f_code.co_filename, lines[-1], 0, lines[-1], -1, "error")
            self._tell(Event("raise", site, type(error).__name__, _text(error)))
        self._out.flush()
        self._quiet += 1


class _Output(io.TextIOBase):
    """Standard output, told line by line."""

    def __init__(self, observer: Observer, real: Any) -> None:
        self._observer, self._real, self._line = observer, real, ""

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._observer.printed(line)
        return len(text)

    def finish(self) -> None:
        if self._line:
            self._observer.printed(self._line)
            self._line = ""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._real.fileno())

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return str(self._real.encoding)


def _place(frame: FrameType, name: str) -> Site:
    return Site(frame.f_code.co_filename, frame.f_lineno, 0, frame.f_lineno, -1, name)


def _text(error: BaseException | None) -> str:
    return str(error).partition("\n")[0][:300]


def _scale(values: np.ndarray[Any, Any]) -> float:
    if values.dtype.kind not in "fc":
        return 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        sizes = np.abs(values)
        largest = float(sizes.max())
        return largest if np.isfinite(largest) else float(sizes[np.isfinite(sizes)].max(initial=0))


def _run(files: Files, words: list[str]) -> None:
    """The program, as `python` runs it."""
    if words[0] == "-m":
        sys.argv[:] = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    sys.argv[:] = words
    main_module = ModuleType("__main__")
    main_module.__file__ = words[0]
    vars(main_module)["__builtins__"] = builtins
    sys.modules["__main__"] = main_module
    exec(files.code(words[0]), vars(main_module))


def _script_from_sources(observer: Observer, files: Files) -> None:
    """Has weft's `jit.script` read what the user wrote, and what it made run without being told."""
    source: Any = importlib.import_module("weft.frontend.source")
    source.rewritten = files.known
    scripted: Any = importlib.import_module("weft.jit.scripted")
    for name in ("ScriptFunction", "RecursiveScriptModule"):
        base = getattr(scripted, name)
        own = {"__call__": observer.unseen_call(base.__call__), "__module__": base.__module__}
        setattr(scripted, name, type(name, (base,), own))


def _stable(sort: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's `sort` or `argsort` with `stable=True` where the caller says neither: weft's always
    is, and what sorts within PyTorch, as `pack_padded_sequence` does, then has the same order."""

    @functools.wraps(sort)
    def stable(input: Any, *args: Any, **options: Any) -> Any:
        by_name = {"stable": True, **dict(zip(("dim", "descending"), args)), **options}
        return sort(input, *args, **options) if "stable" in options else sort(input, **by_name)

    return stable


def _install(library: Any, observer: Observer, files: Files) -> None:
    """Has the rewritten files find the observer, and what it stands before."""
    vars(builtins)[OBSERVER] = observer
    for clock in [*_CLOCKS, *(f"{name}_ns" for name in _CLOCKS)]:
        setattr(time, clock, observer.clock(clock, getattr(time, clock)))
    timeit.default_timer = time.perf_counter  # PyTorch has imported it before, with the real one
    for transform in _TRANSFORMS:
        if hasattr(library.func, transform):
            setattr(library.func, transform, observer.unseen(getattr(library.func, transform)))
    library.vmap = library.func.vmap
    library.jit.trace = observer.unseen_call(library.jit.trace)
    library.export.export = observer.unseen_call(library.export.export)
    checks = importlib.import_module(f"{library.__name__}.autograd.gradcheck")
    for check in ("gradcheck", "gradgradcheck"):  # each library calls the function when it likes
        unseen = observer.unseen_call(getattr(checks, check))
        setattr(library.autograd, check, unseen)
        setattr(checks, check, unseen)
    if hasattr(library.version, "weft"):
        _script_from_sources(observer, files)
    else:
        for name in ("sort", "argsort"):
            setattr(library.Tensor, name, _stable(getattr(library.Tensor, name)))
            setattr(library, name, _stable(getattr(library, name)))
            library.jit._builtins._register_builtin(getattr(library, name), f"aten::{name}")


def main(words: list[str]) -> None:
    """Runs the program of the command line and tells of it."""
    name, seed, out, answers, folder, *program = words
    library: Any = importlib.import_module(name)
    files = Files(folder, os.getcwd())
    observer = Observer(library, files, os.fdopen(int(out), "wb", 1 << 16),
                        os.fdopen(int(answers), "rb"))  # fmt: skip
    library.manual_seed(int(seed))
    random.seed(int(seed))
    np.random.seed(int(seed) % 2**32)
    _install(library, observer, files)
    sys.path[0] = folder
    sys.meta_path.insert(0, Finder(files))
    sys.stdout = output = _Output(observer, sys.stdout)
    error: BaseException | None = None
    try:
        _run(files, program)
    except BaseException as raised:
        error = raised
    output.finish()
    observer.ended(error)
    sys.stdout = output._real
    sys.exit(error.code if isinstance(error, SystemExit) else 0 if error is None else 1)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Random programs of autodiff: drawn while PyTorch runs them, so that most statements are valid.

A program is a list of statements, texts of one line, or of a `with` and its lines. Templates name
what is drawn: {x} a tensor, {y} one that broadcasts with it, {s} a number, {d} {e} dimensions of x,
{i} an index in dimension d, {n} a length there, {o} a fresh variable.
"""

import contextlib
import random
import re
import warnings

from autodiff_known import undrawn
from autodiff_names import names_for

UNARY = """
{x}.sin()|{x}.cos()|{x}.tanh()|{x}.neg()|{x}.abs()|{x}.relu()|{x}.sigmoid()|{x}.square()|{x} * {s}
{x} + {s}|{s} - {x}|{x} / 2|2 / ({x} * {x} + 2)|{x} ** 2|{x} ** 3|(-{x}.abs()).exp()
{x}.softmax({d})|{x}.clone()|{x}.contiguous()|{x}.cumsum({d})|{x}.cumprod({d})|{x}.flip({d})
({x}.abs() + 1).sqrt()|{x}.abs().log1p()|({x} * {x}).sum({d})|{x}.mean({d})|{x}.sum()|{x}.mean()
{x}.norm()|{x}.norm(dim={d})|{x}.var()|{x}.std({d})|{x}.logsumexp({d})|{x}.prod()|{x}.prod({d})
{x}.amax({d})|{x}.max()|{x}.min()|{x}.clamp(-0.5, 0.5)|{x}.clamp(min=-0.3)|{x}.sign()|{x}.floor()
{x}.round()|{x}.trunc()|{x}.frac()|{x}.erf()|{x}.atan()|{x}.sinh()|{x}.reciprocal()
{x}.log_softmax({d})|t.fft.fft({x})|t.fft.rfft({x})|t.fft.ifft({x}) + 0|t.fft.fft2({x})
t.matrix_exp({x})|{x}.conj()|({x} + 0).angle()|{x}.tril()|{x}.triu()|{x}.roll(1, {d})
{x}.diag_embed()|{x}.trace()|{x}.to(t.float32)|{x}.double()|t.nn.functional.gelu({x})|t.nn.functional.elu({x})
t.nn.functional.hardtanh({x})|t.nan_to_num({x})|t.nn.functional.leaky_relu({x})
t.nn.functional.softplus({x})|t.nn.functional.silu({x})|t.nn.functional.hardswish({x})
t.nn.functional.tanhshrink({x})|t.nn.functional.softshrink({x})
t.nn.functional.threshold({x}, 0.1, 0.2)|t.nn.functional.normalize({x}, dim={d})
{x}.repeat_interleave(2, {d})|t.trapezoid({x})|t.cumulative_trapezoid({x})|{x}.diff()
t.special.i0({x})|{x}.sinc()|t.linalg.det({x})|t.nn.functional.pad({x}, (1, 1))
t.nn.functional.layer_norm({x}, {x}.shape[-1:])|{x}.logcumsumexp({d})|{x}[{x}.detach().abs() > 0.5]
{x}.index_select({d}, t.tensor([{i}, {i}]))|{x}.gather(-1, t.zeros_like({x}, dtype=t.int64))
{x}.repeat(2)|{x}.tile(2)|{x}.rot90()|{x}.masked_fill({x}.detach() > 0, 0.5)|t.logit({x}.sigmoid())
{x}.exp2()|{x}.count_nonzero()|{x} > 0|{x}.detach() * 2|{x}.new_zeros(2)|t.zeros_like({x})
t.ones_like({x}, requires_grad=True)|{x}.movedim({d}, {e})|t.linalg.vector_norm({x}, 1)
t.linalg.norm({x})|{x}.argmax()|{x}.diagonal_scatter({x}.diagonal() * 2)|{x}.renorm(2, {d}, 0.5)
t.nn.functional.cross_entropy({x}, t.zeros(len({x}), dtype=t.int64))
t.nn.functional.cross_entropy({x}, t.zeros(len({x}), dtype=t.int64), label_smoothing=0.1)
t.nn.functional.cross_entropy({x}, {x}.detach().softmax(-1))|t.special.ndtr({x})
t.nn.functional.nll_loss({x}, t.zeros(len({x}), dtype=t.int64))
t.nn.functional.rms_norm({x}, {x}.shape[-1:])
t.nn.functional.batch_norm({x}, None, None, training=True)|t.nn.functional.group_norm({x}, 1)
t.nn.functional.instance_norm({x})|t.nn.functional.scaled_dot_product_attention({x}, {x}, {x})
t.nn.functional.mish({x})|t.nn.functional.logsigmoid({x})|t.nn.functional.selu({x})
t.nn.functional.pad({x}, (1, 0), 'reflect')|t.nn.functional.pad({x}, (1, 2), 'replicate')
t.nn.functional.pad({x}, (1, 0), 'circular')|t.nn.functional.max_pool1d({x}, 1)
t.nn.functional.avg_pool1d({x}, 1)|{x}.abs().pow(1.5)|t.nn.functional.glu({x}, {d})
{x}.nansum()|t.func.grad(loss)({x})|{x}.mode({d})[0]|{x}.quantile(0.3)|{x}.cov()|{x}.corrcoef()|{x}.kron({x})
t.complex({x}, {x} * 2)|t.polar({x}.abs() + 0.1, {x})|{x}.sgn()|{x}.dist({x} * 2)
t.block_diag({x}, {x})
"""

BINARY = """
{x} + {y}|{x} - {y}|{x} * {y}|{x} / ({y} * {y} + 1)|{x} @ {y}|t.matmul({x}, {y})|t.maximum({x}, {y})
t.minimum({x}, {y})|t.where({x} > 0, {x}, {y})|t.atan2({x}, {y})|t.cat([{x}, {y}])
t.stack([{x}, {y}])|t.hypot({x}, {y})|t.outer({x}, {y})|t.kron({x}, {y})|t.lerp({x}, {y}, 0.3)
t.addcmul({x}, {y}, {y})|t.addcdiv({x}, {y}, {y} * {y} + 1)|{x}.copysign({y})|t.dot({x}, {y})
t.floor_divide({x}, {y} + 3)|t.heaviside({x}, {y})|t.fmod({x}, {y} + 3)|t.remainder({x}, {y} + 3)
t.nn.functional.mse_loss({x}, {y})|t.nn.functional.smooth_l1_loss({x}, {y})
t.einsum('...i,...i->...', {x}, {y}) + 0|t.cdist({x}, {y})|t.logaddexp({x}, {y})
t.xlogy({x}, {y} * {y} + 1)|t.nn.functional.linear({x}, {y})|({x} + 0).pow({y})|t.dist({x}, {y})
t.complex({x}, {y})|t.nn.functional.cosine_similarity({x}, {y}, dim=-1)|t.inner({x}, {y})
t.slice_scatter({x}, {y}, {d})|t.select_scatter({x}, {y}, {d}, {i})|{x}.where({y} > 0, {y})
t.cross({x}, {y})|{x}.index_add({d}, t.tensor([{i}]), {y})|{x}.masked_scatter({x} > 0, {y})
t.tensordot({x}, {y}, 1)|t.clamp({x}, {y}, {y} + 1)|t.nn.functional.prelu({x}, {y})
t.trapezoid({x}, {y})|t.fmax({x}, {y})|t.addmm({x}, {y}, {y})
t.nn.functional.huber_loss({x}, {y})|t.nn.functional.l1_loss({x}, {y})
t.nn.functional.binary_cross_entropy_with_logits({x}, {y}.sigmoid())
t.nn.functional.kl_div({x}, {y}.softmax(-1))|t.nn.functional.pairwise_distance({x}, {y})
t.nn.functional.scaled_dot_product_attention({x}, {y}, {y})
"""

VIEWS = """
{x}.narrow({d}, {i}, {n})|{x}.select({d}, {i})|{x}.transpose({d}, {e})|{x}.t()|{x}.mT|{x}.T|{x}.mH
{x}.H|{x}.unsqueeze({d})|{x}.squeeze()|{x}.squeeze({d})|{x}.expand(2, *{x}.shape)|{x}.expand_as({x})
{x}.unfold({d}, {n}, 1)|{x}.diagonal()|{x}.view(-1)|{x}.view_as({x})|{x}.reshape(-1)|{x}.flatten()
{x}.real|{x}.imag|t.view_as_real({x})|t.view_as_complex({x})|{x}.view(t.complex128)
{x}.view(t.float64)|{x}.view(t.int64)|{x}.view(t.float32)|{x}[{i}]|{x}[{i}:]|{x}[..., :1]|{x}[None]
{x}[:, None]|{x}[::2]|{x}.movedim({d}, {e})|{x}.permute(*reversed(range({x}.ndim)))
{x}.as_strided((2,), (1,))|{x}.detach()|{x}.as_strided((2, 2), (2, 1))|{x}.data
{x}.swapaxes({d}, {e})|{x}.unflatten({d}, (-1, 1))|{x}.view(1, -1)|{x}.resolve_conj()
{x}.conj().imag|{x}.real[..., :1]|{x}.expand(-1)|{x}.broadcast_to((2, *{x}.shape))|{x}.adjoint()
"""

SEVERAL = """
{x}.chunk(2, {d})|{x}.split({n}, {d})|{x}.unbind({d})|{x}.tensor_split(2, {d})|t.max({x}, {d})
t.sort({x}, {d})|t.min({x}, {d})|t.topk({x}, 1, {d})|t.var_mean({x})|t.median({x}, {d})
t.cummax({x}, {d})|t.aminmax({x})|t.broadcast_tensors({x}, {y})|t.linalg.slogdet({x})
t.std_mean({x}, {d})|t.meshgrid({x}, {y}, indexing='ij')|Fixed.apply({x})|Lazy.apply({x})
Eager.apply({x})|DirtyTwo.apply({x})|t.atleast_1d({x}, {y})|{x}.hsplit(2)
t.autograd.grad(loss({x}), [{l}, {m}], allow_unused=True)
t.autograd.grad(loss({x}), [{l}, {m}], allow_unused=True, create_graph=True)
t.autograd.grad(loss({x}), [{l}, {m}], retain_graph=True)
t.autograd.grad([{x}.sum(), {y}.sum()], [{l}, {m}], allow_unused=True, retain_graph=True)
t.autograd.grad({x}, [{l}], t.ones_like({x}), create_graph=True, materialize_grads=True)
t.autograd.grad(loss({x}), [{l}], create_graph=True)|t.func.vjp(body, {x})[1]({z})
t.autograd.grad(loss({x}), [{l}])
"""

CUSTOM = """
Scale.apply({x})|Save.apply({x})|Dirty.apply({x})|DirtySaved.apply({x}, {y})|View.apply({x})
Part.apply({x})|Same.apply({x})|Two.apply({x}, {y})|Nothing.apply({x}, {y})|Once.apply({x})
Inner.apply({x})|Split.apply({x}, 3)|checkpoint(body, {x})|checkpoint(body, {x}, again=True)
checkpoint(body_two, {x}, {y})|checkpoint(body_two, {x}, {y}, again=True)
"""

WRITES = """
{x}.mul_({s})|{x}.add_({s})|{x}.mul_({y})|{x}.add_({y})|{x}.sub_({y}, alpha=0.5)|{x}.sin_()
{x}.tanh_()|{x}.sigmoid_()|{x}.relu_()|{x}.zero_()|{x}.fill_({s})|{x}.fill_({y})|{x}.copy_({y})
{x}[{i}] = {s}|{x}[{i}] = {y}|{x}[..., 0] = 0.5|{x}[..., :1] *= 2|{x}[{i}:] += {y}
{x}.masked_fill_({x} > 0, 0.3)|{x}.clamp_(-0.4, 0.4)|{x}.index_fill_({d}, t.tensor([{i}]), 0.2)
{x}.index_add_({d}, t.tensor([{i}]), {y})|{x}.neg_()|{x}.abs_()
{x}.index_copy_({d}, t.tensor([{i}]), {y})|{x}.scatter_({d}, t.zeros_like({x}, dtype=t.int64), 0.4)
{x}.put_(t.tensor([0]), t.tensor([0.5], dtype={x}.dtype))|{x}.lerp_({y}, 0.3)|{x}.addcmul_({y}, {y})
{x}.pow_(2)|{x}.real.mul_(2)|{x}.imag.add_(1)|{x}.real[..., 0] = 0.5|t.view_as_real({x}).mul_({s})
{x}.detach().mul_(0.5)|{x}.data.mul_(0.5)|{x}.data.fill_(0.1)|{x}.detach_()|{x}.requires_grad_()
{x}.requires_grad_(False)|{x}.t_()|{x}.transpose_({d}, {e})|{x}.unsqueeze_({d})|{x}.squeeze_()
{x}.squeeze_({d})|{x}.swapaxes_({d}, {e})|{x}.diagonal().mul_(2)|{x}.transpose({d}, {e}).mul_({s})
{x}.select({d}, {i}).mul_({y})|{x}.view(-1)[0] = {s}|{x}.data = {z}|{x}.addmm_({y}, {y})|{x}.div_(2)
{x}.floor_()|{x}.round_()|{x}.tril_()|{x}.cumsum_({d})|{x}.unfold({d}, {n}, {n}).mul_(2)
t.nn.functional.relu({x}, inplace=True)|{x}[{x}.detach() > 0] = 0.2|{x}.zero_().add_(1)
{x}.expand(2, *{x}.shape).mul_(2)|{x}.masked_scatter_({x} > 0, {y})
t.nn.functional.leaky_relu_({x}, 0.1)|{x}.exp_().tanh_()
{x}.index_put_((t.tensor([{i}]),), {y}, accumulate=True)|{x}.squeeze().mul_(2)
{x}.reshape(-1).mul_(2)|{x}.clone().mul_(2)|t.sin({z}, out={x})|t.add({x}, {y}, out={y})
{x}.split(1, {d})[0].mul_(2)|{x}.unbind({d})[0].add_(1)|{x}.detach_()|{x}.detach_().requires_grad_()
{x}.detach_().mul_(2)|{x}.data = {z}.data|{x}.data = {x}.data|{x}.data = {x}.data.clone()
{x}.expand(2, *{x}.shape).masked_fill_({x}.detach() > 0, 0.3)|{x}.expand(2, *{x}.shape)[{i}] = 0.5
{x}.expand(2, *{x}.shape).index_fill_({d}, t.tensor([{i}]), 0.2)
"""

GRADIENTS = """
loss({x}).backward()|loss({x}).backward(retain_graph=True)|loss({x}).backward(create_graph=True)
loss({x}, {y}).backward()|loss({x}).backward(inputs=[{l}])
loss({x}).backward(inputs=[{l}, {m}], retain_graph=True)
{x}.backward({z}.clone(), retain_graph=True)
{x}.backward()|{x}.mean().backward(retain_graph=True)
t.autograd.backward([{x}.sum(), {y}.sum()], retain_graph=True)|{x}.sum().backward(retain_graph=True)
{x}.sum().backward(create_graph=True)|{x}.backward(t.ones_like({x}))|{l}.grad = None
{l}.grad = {z}.detach()|{l}.grad.zero_()|{l}.grad.mul_(2)|{l}.grad = {z}|{l}.grad.sum().backward()
{x}.grad = {y}|{l}.grad.detach_()|{o} = {l}.grad|{o} = {l}.grad|{x}.grad = None
loss({l}.grad).backward()
"""

HOOKS = """
hook({x}, look('{k}'))|hook({x}, scaled('{k}'))|{x}.retain_grad()
{l}.register_post_accumulate_grad_hook(after('{k}'))|{x}.grad_fn.register_hook(node('{k}'))
{x}.grad_fn.register_prehook(node('{k}'))|{x}.grad_fn.register_hook(node_scaled('{k}'))
{x}.grad_fn.register_prehook(node_scaled('{k}'))|{o} = hook({x}, look('{k}'))|{h}.remove()|see({x})
see({x})
"""

SCOPES = """
with t.no_grad():|with t.enable_grad():|with t.set_grad_enabled(False):|with t.no_grad():
with t.autograd.graph.saved_tensors_hooks(pack, unpack):|with t.inference_mode():
with t.autograd.graph.save_on_cpu():
"""


def lines(text, separator="|"):
    found = [part.strip() for line in text.splitlines() for part in line.split(separator)]
    return [part for part in found if part]


KINDS = {
    "unary": (lines(UNARY), 5, True),
    "binary": (lines(BINARY), 4, True),
    "view": (lines(VIEWS), 6, True),
    "several": (lines(SEVERAL), 3, True),
    "custom": (lines(CUSTOM), 2.5, True),
    "write": (lines(WRITES), 5, False),
    "gradient": (lines(GRADIENTS), 3, False),
    "hook": (lines(HOOKS), 2, False),
    "scope": (lines(SCOPES), 0.7, False),
}
SHAPES = [(), (1,), (3,), (4,), (2, 3), (3, 3), (2, 2), (3, 1), (1, 3), (0, 2)]
SHAPES += [(2, 1, 3), (2, 2, 2)]


def is_tensor(value):
    return hasattr(value, "requires_grad")


class Drawer:
    """Draws a program, and runs it in the oracle as it grows."""

    def __init__(self, key, lib, size):
        self.random, self.lib = random.Random(key), lib
        self.size, self.statements, self.count = size, [], 0
        names, self.log = names_for(lib)
        self.names = dict(names)
        self.kept = 0.1  # of the statements that raise
        self.around = ""  # the `with` that is being drawn
        self.spoilt = False  # whether the statement wrote what it then refused

    def fresh(self):
        self.count += 1
        return f"v{self.count - 1}"

    def variables(self, wanted=is_tensor):

        def suits(value):
            try:
                return wanted(value)
            except RuntimeError:  # PyTorch's of a view that must not be used any more
                return False

        return [n for n, v in self.names.items() if re.fullmatch(r"v\d+", n) and suits(v)]

    def one(self, wanted=is_tensor):
        """A variable, more often a recent one."""
        found = self.variables(wanted) or self.variables()
        at = max(self.random.randrange(len(found)), self.random.randrange(len(found)))
        return found[at]

    def beside(self, x):
        """One that broadcasts with x, if there is one."""

        def fits(y):
            if not is_tensor(y) or not (y.is_floating_point() or y.is_complex()):
                return False
            with contextlib.suppress(RuntimeError):
                self.lib.broadcast_shapes(x.shape, y.shape)
                return True
            return False

        return self.one(fits) if self.random.random() < 0.93 else self.one()

    def filled(self, template):
        r = self.random
        usable = lambda v: is_tensor(v) and (v.is_floating_point() or v.is_complex())  # noqa: E731
        name = self.one(usable if r.random() < 0.97 else is_tensor)
        x = self.names[name]
        d = r.randrange(x.ndim) if x.ndim else 0
        size = x.shape[d] if x.ndim else 1
        i = r.randrange(size) if size else 0
        leaves = lambda v: usable(v) and v.is_leaf and v.requires_grad  # noqa: E731
        tracked = lambda v: usable(v) and v.requires_grad  # noqa: E731
        some = leaves if r.random() < 0.7 else tracked
        alike = lambda v: usable(v) and v.shape == x.shape  # noqa: E731
        if ".data = " in template:  # what x becomes
            alike = lambda v: usable(v) and v.shape == x.shape and v.dtype == x.dtype  # noqa: E731
        handle = lambda v: hasattr(v, "remove") and not is_tensor(v)  # noqa: E731
        chosen = {
            "x": name,
            "y": lambda: self.beside(x),
            "z": lambda: self.one(alike),
            "s": lambda: r.choice(["0.5", "2", "-1", "1.5", "0"]),
            "d": str(d - x.ndim if r.random() < 0.3 and x.ndim else d),
            "e": lambda: str(r.randrange(x.ndim) if x.ndim else 0),
            "i": str(i),
            "n": lambda: str(r.randint(1, max(size - i, 1))),
            "l": lambda: self.one(some),
            "m": lambda: self.one(some),
            "h": lambda: (self.variables(handle) or ["v0"])[-1],
            "o": lambda: self.fresh(),
            "k": lambda: f"h{len(self.statements)}",
        }

        def value(match):
            found = chosen[match[1]]
            if callable(found):
                found = chosen[match[1]] = found()
            return found

        if x.is_complex():  # conj() is a lazy view in PyTorch, a copy in weft
            template = re.sub(r"(\{x\}\.(conj\(\)|mH|H\b|adjoint\(\)))", r"\1.clone()", template)
        return re.sub(r"\{([a-z])\}", value, template)

    def expression(self, kind):
        templates, _, makes = KINDS[kind]
        template = self.random.choice(templates)
        before = self.count
        text = self.filled(template)
        if makes and kind == "several":
            return text, before
        if makes:
            return f"{self.fresh()} = {text}", before
        return text, before

    def run(self, text):
        """Whether a statement ran without an error, in PyTorch."""
        try:
            exec(compile(text, "<program>", "exec"), self.names)
        except Exception as error:
            # PyTorch refuses only when it has written.
            self.spoilt = "Inplace update to inference tensor" in str(error)
            return False
        return True

    def fine(self, value):
        """Whether what was made is small enough to go on with."""
        if not is_tensor(value):
            return True
        if value.numel() > 64 or value.ndim > 5:
            return False
        try:
            value = value.detach()
        except RuntimeError:
            return False
        value = value if value.is_complex() else value.double()
        return bool(value.isfinite().all() and (value.abs() < 30).all())

    def several(self, text):
        """The statement for a call with a tuple of results."""
        try:
            result = eval(text, self.names)
            if not isinstance(result, (tuple, list)) or not 0 < len(result) <= 4:
                return None
        except Exception:
            return text if self.random.random() < self.kept else None
        made = [self.fresh() for _ in result]
        self.names.update(zip(made, result))
        if not all(map(self.fine, result)):
            for name in made:
                del self.names[name]
            return None
        return f"{', '.join(made)}{',' if len(made) == 1 else ''} = {text}"

    def overlaps(self, text):
        """Whether a write reads what else lies in the memory that it writes, or writes an element
        twice: PyTorch reads what it has overwritten, where it does not refuse."""

        def memory(x):
            try:
                return x.untyped_storage().data_ptr()
            except (RuntimeError, NotImplementedError):  # a gradient of zeros has none
                return 0

        used = [self.names.get(n) for n in dict.fromkeys(re.findall(r"\bv\d+\b", text))]

        def twice(x):
            whole = self.lib.arange(max(memory(x) and x.untyped_storage().nbytes(), 1))
            at = whole.as_strided(x.shape, x.stride(), x.storage_offset())
            return 0 not in x.stride() and at.unique().numel() < x.numel()

        used = [x for x in used if is_tensor(x) and memory(x)]
        if re.search(r"[a-z]_\(|\] [*+]?= |out=", text):
            return len({memory(x) for x in used}) < len(used) or any(map(twice, used))
        return "_scatter(" in text and any(map(twice, used))

    def statement(self, kinds):
        """One more statement, already run; None if the one drawn will not do."""
        weights = [KINDS[kind][1] for kind in kinds]
        kind = self.random.choices(kinds, weights)[0]
        text, before = self.expression(kind)
        if undrawn(f"{self.around}\n{text}") or self.overlaps(text):
            return None
        if kind == "several":
            return self.several(text)
        if kind == "scope":
            return self.scope(text)
        self.spoilt = False
        if not self.run(text):
            return text if self.random.random() < self.kept and not self.spoilt else None
        made = [f"v{n}" for n in range(before, self.count)]
        if not all(self.fine(self.names[name]) for name in made):
            for name in made:
                del self.names[name]
            return None
        return text

    def scope(self, text):
        inner = [kind for kind in KINDS if kind != "scope"]
        kept, self.kept, self.around = self.kept, 0, text
        body = []
        with eval(text[5:-1], self.names):
            for _ in range(self.random.randint(1, 3)):
                found = self.statement(inner)
                if found is not None:
                    body.append(found)
        self.kept, self.around = kept, ""
        return "\n    ".join([text, *body]) if body else None

    def leaves(self):
        r = self.random
        near = r.sample(SHAPES, 2)
        for at in range(r.randint(2, 4)):
            shape = r.choice(near)
            options = [f"at={at}"]
            if r.random() < 0.2:
                options.append("kind='complex128'")
            if r.random() < 0.15:
                options.append("grad=False")
            if len(shape) > 1 and r.random() < 0.2:
                order = list(range(len(shape)))
                r.shuffle(order)
                options.append(f"order={tuple(order)}")
            text = f"{self.fresh()} = leaf({', '.join([*map(str, shape), *options])})"
            self.run(text)
            self.statements.append(text)

    def draw(self):
        self.leaves()
        kinds = list(KINDS)
        if self.random.random() < 0.3:  # some programs of fewer kinds go deeper
            kinds = ["view", "write", "gradient", "unary"]
        for _ in range(self.random.randint(4, self.size)):
            found = self.statement(kinds)
            if found is not None:
                self.statements.append(found)
        wanted = self.variables(lambda v: is_tensor(v) and v.requires_grad)
        if wanted:
            for name in self.random.sample(wanted, min(2, len(wanted))):
                self.statements.append(f"loss({name}).backward(retain_graph=True)")
        return self.statements


def draw(key, lib, size=14):
    """The statements of a program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        statements = Drawer(key, lib, size).draw()
    names_for(lib)[1].clear()
    return statements

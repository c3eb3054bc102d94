"""State dictionaries and what is wrong with them, side by side with PyTorch's."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import weft
from weft import nn

# --- state dictionaries -------------------------------------------------------------------------


def broken(t, m):
    """A state dictionary with one of each mistake."""
    sd = m.state_dict()
    sd["weight"] = t.zeros(3, 3)
    del sd["bias"], sd["child.0.bias"]
    sd["extra.weight"] = t.zeros(2)
    sd["child.0.foo"] = t.zeros(3)
    sd["tied"] = 5
    return sd


STATE = {
    "keys": lambda t, m: list(m.state_dict()),
    "values": lambda t, m: m.state_dict(),
    "prefix": lambda t, m: list(m.state_dict(prefix="p.")),
    "destination": lambda t, m: m.state_dict(destination=OrderedDict(a=1)),
    "positional": lambda t, m: list(m.state_dict(OrderedDict(), "p.")),
    "metadata": lambda t, m: m.state_dict()._metadata,
    "keep_vars": lambda t, m: [v.requires_grad for v in m.state_dict(keep_vars=True).values()],
    "match": lambda t, m: repr(m.load_state_dict(m.state_dict())),
    "mistakes": lambda t, m: m.load_state_dict(broken(t, m)),
    "mistakes not strict": lambda t, m: m.load_state_dict(broken(t, m), strict=False),
    "missing": lambda t, m: m.load_state_dict({"bias": t.zeros(3)}),
    "unexpected": lambda t, m: m.load_state_dict({**m.state_dict(), "x": t.zeros(3), "y.z": 3}),
    "not strict": lambda t, m: repr(m.load_state_dict({"x": t.zeros(3)}, strict=False)),
    "not strict result": lambda t, m: m.load_state_dict({"x": t.zeros(3)}, strict=False),
    "one element for a scalar": lambda t, m: (
        setattr(m, "s", t.nn.Parameter(t.tensor(1.0))),
        m.load_state_dict({"s": t.ones(1) * 5}, strict=False),
        m.s,
    ),
    "other dtype": lambda t, m: (
        m.load_state_dict({"bias": t.ones(3, dtype=t.float64)}, strict=False),
        m.bias,
    ),
    "assign": lambda t, m: (
        m.load_state_dict({"bias": t.ones(3, dtype=t.float64)}, strict=False, assign=True),
        m.bias,
        type(m.bias).__name__,
    ),
    "assign shape": lambda t, m: m.load_state_dict({"bias": t.ones(4)}, strict=False, assign=True),
}


@pytest.mark.parametrize("name", STATE)
def test_state(agree, name, small):
    agree(lambda t: STATE[name](t, small(t)))


def test_loading_copies_and_assigning_shares():
    m = nn.Linear(2, 2)
    values = {"weight": weft.ones(2, 2), "bias": weft.ones(2)}
    m.load_state_dict(values)
    values["bias"].zero_()
    assert m.bias.tolist() == [1, 1]
    m.load_state_dict(values, assign=True)
    values["bias"].fill_(3)
    assert m.bias.tolist() == [3, 3]
    assert isinstance(m.bias, nn.Parameter) and m.bias.requires_grad


def test_extra_state(agree):
    def snippet(t):
        class Counter(t.nn.Module):
            n = 0

            def get_extra_state(self):
                return {"n": self.n}

            def set_extra_state(self, state):
                self.n = state["n"]

        a = t.nn.Sequential(Counter(), t.nn.Linear(1, 1))
        a[0].n = 5
        sd = a.state_dict()
        b = t.nn.Sequential(Counter(), t.nn.Linear(1, 1))
        b.load_state_dict(sd)
        del sd["0._extra_state"]
        return list(sd), b[0].n, b.load_state_dict(sd, strict=False)

    agree(snippet)
    with pytest.raises(RuntimeError, match="define get_extra_state and set_extra_state together"):
        nn.Module().get_extra_state()


def test_unexpected_extra_state(agree):
    agree(lambda t: t.nn.ReLU().load_state_dict({"_extra_state": 3}))


def test_versions_reach_the_loader():
    class Second(nn.Linear):
        _version = 2
        seen = None

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
            Second.seen = prefix, local_metadata.get("version")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    m = nn.Sequential(Second(1, 1))
    m.load_state_dict(m.state_dict())
    assert Second.seen == ("0.", 2)
    m.load_state_dict(dict(m.state_dict()))
    assert Second.seen == ("0.", None)


def test_state_hooks(agree):
    def snippet(t):
        log = []
        m = t.nn.Sequential(t.nn.Linear(1, 1))
        m[0].register_state_dict_pre_hook(lambda mod, prefix, keep: log.append(("pre", prefix)))
        m[0].register_state_dict_post_hook(lambda mod, sd, prefix, meta: sd.pop(prefix + "bias"))
        bad = t.nn.Linear(1, 1)
        bad.register_state_dict_post_hook(lambda *args: 3)
        try:
            bad.state_dict()
        except RuntimeError as error:
            log.append(str(error))
        m[0].register_state_dict_post_hook(lambda mod, sd, prefix, meta: None)
        return log

    def snippet_load(t):
        log = []
        m = t.nn.Sequential(t.nn.Linear(1, 1))
        sd = m.state_dict()
        sd["0.w"] = sd.pop("0.weight")

        def rename(module, state_dict, prefix, *args):
            state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
            log.append((prefix, args[0], args[1], type(module).__name__))

        handle = m[0].register_load_state_dict_pre_hook(rename)
        m[0].register_load_state_dict_post_hook(lambda mod, keys: log.append(repr(keys)))
        m.register_load_state_dict_post_hook(lambda mod, keys: keys.missing_keys.clear())
        log.append(repr(m.load_state_dict(sd)))
        handle.remove()
        log.append(m.load_state_dict({}, strict=True))
        return log

    agree(snippet_load)

    def pop_fails(t):
        try:
            snippet(t)
        except RuntimeError as error:
            return str(error)

    agree(pop_fails)


def test_a_post_hook_may_return_nothing_only(agree):
    def snippet(t):
        m = t.nn.Linear(1, 1)
        m.register_load_state_dict_post_hook(lambda mod, keys: 3)
        m.load_state_dict(m.state_dict())

    agree(snippet)


def test_private_state_hooks(agree):
    def snippet(t):
        m = t.nn.Linear(1, 1)
        m._register_state_dict_hook(lambda mod, sd, prefix, meta: {"only": 1})
        log = [m.state_dict()]
        m._register_load_state_dict_pre_hook(lambda sd, *rest: log.append(len(rest)))
        m._register_load_state_dict_pre_hook(lambda mod, sd, *rest: log.append(len(rest)), True)
        m.load_state_dict({}, strict=False)
        return log

    agree(snippet)

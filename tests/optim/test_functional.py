"""`torch.optim._functional`: steps as functions of lists, and the names that optimizers import."""

import importlib

import pytest

import weft

torch = pytest.importorskip("torch")

# The function, its lists (0, 1: filled like the parameters; m, s: numbers; n: Nones; -: none), its
# settings.
STEPS = {
    "adadelta": ("00s", {"lr": 0.5, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.1}),
    "adagrad": ("0s", {"lr": 0.5, "weight_decay": 0.1, "lr_decay": 0.1, "eps": 1e-8}),
    "adam": ("00-s", {"amsgrad": False, "beta1": 0.9, "beta2": 0.99, "lr": 0.1,
                      "weight_decay": 0.1, "eps": 1e-8}),
    "adamax": ("00s", {"eps": 1e-8, "beta1": 0.9, "beta2": 0.99, "lr": 0.1, "weight_decay": 0.1}),
    "adamw": ("000s", {"amsgrad": True, "beta1": 0.9, "beta2": 0.99, "lr": 0.1,
                       "weight_decay": 0.1, "eps": 1e-8}),
    "nadam": ("00ms", {"beta1": 0.9, "beta2": 0.99, "lr": 0.1, "weight_decay": 0.1,
                       "momentum_decay": 4e-3, "eps": 1e-8}),
    "radam": ("00s", {"beta1": 0.9, "beta2": 0.99, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-8}),
    "rmsprop": ("000s", {"lr": 0.1, "alpha": 0.9, "eps": 1e-8, "weight_decay": 0.1,
                         "momentum": 0.5, "centered": True}),
    "rprop": ("01s", {"step_size_min": 1e-6, "step_size_max": 50.0, "etaminus": 0.5,
                      "etaplus": 1.2}),
    "sgd": ("n", {"weight_decay": 0.1, "momentum": 0.9, "lr": 0.1, "dampening": 0.0,
                  "nesterov": True}),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("by_name", [False, True])
def test_a_step_over_lists(name, by_name):
    kinds, settings = STEPS[name]
    results = []
    for lib in (weft, torch):
        module = importlib.import_module(f"{lib.__name__}.optim._functional")
        alone = importlib.import_module(f"{lib.__name__}.optim.{name}")
        step = getattr(module, name, None) or getattr(alone, name)
        params = [lib.arange(3.0) + 1, lib.ones(2, 2)]
        grads = [lib.tensor([0.5, -1.0, 2.0]), lib.full((2, 2), 0.25)]
        made = {"0": lib.zeros_like, "1": lib.ones_like, "n": lambda p: None,
                "m": lambda p: lib.tensor(1.0), "s": lambda p: lib.tensor(0.0)}  # fmt: skip
        lists = [[made[kind](p) for p in params] if kind != "-" else [] for kind in kinds]
        for _ in range(3):
            if by_name and name == "adam":
                step(params, grads, exp_avgs=lists[0], exp_avg_sqs=lists[1],
                     max_exp_avg_sqs=lists[2], state_steps=lists[3], maximize=False, foreach=False,
                     **settings)  # fmt: skip
            else:
                step(params, grads, *lists, maximize=False, **settings)
        results.append([t.tolist() for row in (params, *lists) for t in row])
        assert getattr(alone, name) is step
    for ours, theirs in zip(*results, strict=True):
        assert weft.allclose(weft.tensor(ours), weft.tensor(theirs), rtol=1e-5, atol=1e-7)


def test_names_that_optimizers_import():
    """`from torch.optim.optimizer import ParamsT` and the like were ImportErrors."""
    from torch.optim import optimizer as theirs

    from weft.optim import optimizer as ours

    for name in (
        "ParamsT", "StateDict", "_RequiredParameter", "_capturable_doc", "_differentiable_doc",
        "_foreach_doc", "_fused_doc", "_maximize_doc", "_params_doc",
    ):  # fmt: skip
        assert hasattr(theirs, name) == hasattr(ours, name) is True
    with weft.no_grad():
        for t, lib in ((ours, weft), (theirs, torch)):

            class Step:
                defaults = {"differentiable": True}

                @t._use_grad_for_differentiable
                def step(self, lib=lib):
                    return lib.is_grad_enabled()

            assert Step().step()
            assert t._default_to_fused_or_foreach([lib.ones(1)], False) == (False, False)
            assert t._get_value(lib.tensor(2.0)) == 2 and t._stack_if_compiling(3) == 3
            assert t._get_scalar_dtype() is lib.float32
            assert t._to_scalar(lib.ones(1)).shape == ()
            assert t._disable_dynamo_if_unsupported()(abs)(-1) == 1
            params, grads = [lib.ones(1), lib.tensor([1j])], [lib.ones(1), lib.tensor([2j])]
            t._view_as_real(params, grads)
            assert [x.tolist() for x in grads] == [[1.0], [[0.0, 2.0]]]


def test_schedules_written_for_pytorchs_base():
    """They ask `_get_lr_called_within_step`, and warn by `EPOCH_DEPRECATION_WARNING`."""
    for lib in (weft, torch):
        base = lib.optim.lr_scheduler

        class Warm(base._LRScheduler):
            def __init__(self, optimizer):
                self.seen = []
                super().__init__(optimizer)

            def get_lr(self):
                self.seen.append(self._get_lr_called_within_step)
                return [rate * 2 for rate in self.base_lrs]

        schedule = Warm(lib.optim.SGD([lib.nn.Parameter(lib.ones(1))], lr=0.5))
        schedule.get_lr()
        with base._enable_get_lr_call(schedule):
            schedule.get_lr()
        assert schedule.seen == [True, False, True]
        assert "scheduler.step()" in base.EPOCH_DEPRECATION_WARNING

"""The page of a program that runs: its server, its steps, and what can be done from it."""

import base64
import contextlib
import gc
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import weakref

import numpy as np
import pytest

import weft
from weft.see.view import samples
from weft.see.view.attach import announce, attach, folder


class Net(weft.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = weft.nn.Linear(4, 8)
        self.second = weft.nn.Linear(8, 1)

    def forward(self, x):
        return self.second(self.first(x).tanh()).pow(2).mean()


class Training:
    """A model, and steps of it."""

    def __init__(self):
        weft.manual_seed(0)
        self.model = Net()
        self.optimizer = weft.optim.SGD(self.model.parameters(), lr=0.1)
        self.losses = []

    def step(self, scale=1.0):
        self.optimizer.zero_grad()
        loss = self.model(weft.full((3, 4), scale))
        loss.backward()
        self.losses.append(loss.item())
        self.optimizer.step()
        self.loss = loss


@pytest.fixture
def page(capsys):
    with weft.view(every=4, title="test") as page:
        yield page


@contextlib.contextmanager
def running(page, training, until=60.0):
    """Steps on a thread of their own, as long as the scope."""
    ended = threading.Event()

    def run():
        while not ended.is_set():
            training.step()
            page.log(loss=training.losses[-1])
            time.sleep(0.005)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ended
    finally:
        ended.set()
        page.control({"hold": False, "do": "go"})
        thread.join(until)
        assert not thread.is_alive()


def ask(page, path, method="GET", token=None, host=None, body=None, **headers):
    """(status, text) of a request."""
    server = page.server
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    line.putrequest(method, f"/{token or server.token}/{path}", skip_host=True)
    line.putheader("Host", host or f"127.0.0.1:{server.port}")
    for name, value in headers.items():
        line.putheader(name.replace("_", "-"), value)
    if body is not None:
        line.putheader("Content-Length", str(len(body)))
    line.endheaders(body)
    answer = line.getresponse()
    try:
        return answer.status, answer.read().decode()
    finally:
        line.close()


JSON = {"Content_Type": "application/json"}


def strict(name):
    pytest.fail(f"{name} is no JSON")


def first_event(page):
    """What a page is told first."""
    with urllib.request.urlopen(page.url + "events", timeout=20) as events:
        return json.loads(events.readline().removeprefix(b"data: "), parse_constant=strict)


def cycle():
    out = []
    out.append(out)
    return out


# ---- the server --------------------------------------------------------------------------------


def test_only_who_knows_the_token_at_this_host_is_answered(page):
    port = page.server.port
    assert page.server._http.server_address[0] == "127.0.0.1"
    assert len(page.server.token) >= 32
    status, text = ask(page, "")
    assert status == 200 and "<!doctype html>" in text
    assert ask(page, "", host=f"localhost:{port}")[0] == 200
    refused = [
        ask(page, "", token="wrong"), ask(page, "", token=page.server.token[:-1]),
        ask(page, "", token=page.server.token + "x"), ask(page, "", host="evil.example"),
        ask(page, "", host=f"evil.example:{port}"), ask(page, "", host="127.0.0.1"),
        ask(page, "control", "POST", token="wrong", body=b"{}", **JSON),
        ask(page, "control", "POST", body=b"{}", Origin="http://evil.example", **JSON),
        ask(page, "control", "POST", body=b"{}", Origin="null", **JSON),
        ask(page, "events", host="evil.example"), ask(page, "step/0", token="%20"),
    ]  # fmt: skip
    assert [status for status, _ in refused] == [403] * len(refused)


@pytest.mark.parametrize(
    ("path", "method", "body", "headers", "status"),
    [
        ("nothing", "GET", None, {}, 404), ("step/1/2", "GET", None, {}, 404),
        ("step/../../etc/passwd", "GET", None, {}, 404), ("step/x", "GET", None, {}, 404),
        ("control", "POST", b"{}", {}, 404), ("step", "POST", b"{}", JSON, 404),
        ("control", "POST", b"{", JSON, 400), ("control", "POST", b"[]", JSON, 400),
        ("control", "POST", b'{"every": 0}', JSON, 400),
        ("control", "POST", b'{"stop": {}}', JSON, 400),
        ("control", "POST", b'{"stop": {"norm_above": "x"}}', JSON, 400),
        ("control", "POST", b'{"stop": {"norm_above": "nan"}}', JSON, 400),
        ("control", "POST", b'{"stop": {"norm_above": "-inf"}}', JSON, 400),
        ("control", "POST", b'{"stop": {"norm_above": NaN}}', JSON, 400),
        ("control", "POST", b'{"stop": {"norm_above": 1e999}}', JSON, 400),
        ("control", "POST", b'{"stop": {"norm_above": 1%s}}' % (b"0" * 400), JSON, 400),
        ("control", "POST", b'{"every": 7, "stop": {}}', JSON, 400),
        ("control", "POST", b'{"every": true}', JSON, 400),
        ("control", "POST", b'{"hold": true, "remove": []}', JSON, 400),
        ("control", "POST", b"[" * 60_000, JSON, 400),
        ("control", "POST", b'{"look": {}}', JSON, 400),
        ("control", "POST", b" " * 70_000, JSON, 413), ("control", "POST", b"{}", JSON, 200),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_and_changes_nothing(page, path, method, body, headers, status):
    before = page.state(0)
    assert ask(page, path, method, body=body, **headers)[0] == status
    assert page.state(0) == before


def test_what_is_not_kept_is_null(page):
    for path in ("step/99", "step/-1", "value/0/0"):
        assert ask(page, path) == (200, "null")


def test_one_page_for_a_process_until_it_is_closed(page, capsys):
    assert weft.view() is page
    page.close()
    with pytest.raises(OSError):
        ask(page, "")
    again = weft.view()
    try:
        assert again is not page and again.server.token != page.server.token
        assert again.url in capsys.readouterr().err
    finally:
        again.close()
    with pytest.raises(ValueError, match="every >= 1, got 0"):
        weft.view(every=0)


# ---- steps -------------------------------------------------------------------------------------


def recorded(page):
    return [r["step"] for r in page.state(0)["recorded"]]


def test_the_first_steps_and_one_in_every_are_recorded(page):
    training = Training()
    for _ in range(10):
        training.step()
    assert page.number == 10
    assert recorded(page) == [1, 2, 4, 8]
    model = json.loads(page.model(4))
    assert model["step"] == 4 and "SGD" not in model["title"]
    assert {"linear", "tanh", "sgd", "TanhBackward0"} <= set(model["names"]["texts"])
    (structure,) = page.state(0)["structures"]
    assert structure == {"name": model["structure"], "first": 1, "count": 4}
    assert page.control({"record": True}) == ""
    training.step()
    training.step()
    assert recorded(page)[-1] == 11


def test_a_view_changes_no_number(page):
    plain = Training()
    page.close()
    for _ in range(6):
        plain.step()
    with weft.view(every=1) as page:
        seen = Training()
        for _ in range(6):
            seen.step()
        assert recorded(page) == [1, 2, 3, 4, 5]
    assert seen.losses == plain.losses


def test_batches_are_what_they_are_without_a_view():
    def losses(every):
        weft.manual_seed(0)
        model = Net()
        optimizer = weft.optim.Adam(model.parameters())
        f = weft.autobatch(lambda n: model(weft.ones(n, 4) * n), adaptive=False)
        out, batches = [], []
        for k in range(4):
            with weft.explain() as report:
                loss = sum(f([1, 2, 3 + k, 2]))
            batches.append((report.calls, report.batches))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            out.append(loss.item())
        return out, batches

    expected = losses(0)
    with weft.view(every=1) as page:
        assert losses(1) == expected
        model = json.loads(page.model(3))
        results = {row["name"]: row for row in model["layers"] if row["kind"] == "result"}
        assert set(results) == {"Net", "first", "second"}
        assert results["first"]["shape"] == [1, 8] and results["first"]["result"]["seen"] == 8
        assert model["batches"]["calls"] > model["batches"]["batches"] > 0


def test_explicit_steps_end_those_of_optimizers(page):
    training = Training()
    page.step()
    for _ in range(3):
        training.step()
    assert page.number == 1
    page.step()
    model = json.loads(page.model(1))
    assert model["names"]["texts"].count("sgd") == 1 and page.number == 2


def test_the_first_optimizer_counts_and_other_threads_do_not(page):
    training, other = Training(), Training()
    training.step()
    other.step()
    assert page.number == 1
    thread = threading.Thread(target=training.step)
    thread.start()
    thread.join()
    assert page.number == 1
    training.step()
    assert page.number == 2
    for expected in (2, 3, 4):  # the first one steps no more, or has gone
        other.step()
        assert page.number == expected
    gone = weakref.ref(training.optimizer)
    del training, thread
    gc.collect()
    assert gone() is None


def test_a_recording_of_the_user_lies_beside(page):
    training = Training()
    training.step()
    with weft.record() as g:
        training.step()
        training.step()
    names = [e.name for e in g.calls]
    assert names.count("tanh") == 2 and len(g.find("sgd")) == 2
    seen = json.loads(page.model(2))["names"]
    assert seen["texts"].count("sgd") == 1
    assert not {"histogram", "detach", "to"} & set(names)  # what the page looks at is not seen


def test_what_is_logged_shows_by_step(page):
    training = Training()
    page.log(loss=weft.tensor(2.5), rate=1)
    training.step()
    page.log(loss=float("nan"))
    page.log(step=7, other=np.float32(0.5))
    history = page.state(0)["history"]
    assert [row["step"] for row in history] == [0, 1, 7]
    assert history[0] == {"step": 0, "loss": 2.5, "rate": 1.0} and history[1]["loss"] == "NaN"
    now = page.state(0)["revision"]
    assert page.state(now)["history"] == [] and page.state(now - 1)["history"] == history[2:]
    for wrong in ({"loss": object()}, {"loss": cycle()}, {"step": "a", "loss": 1}):
        with pytest.raises((TypeError, ValueError), match=r"\[view\] expected"):
            page.log(**wrong)
    assert page.state(0)["history"] == history
    page.log(step=7, note="x" * 1000, other=[1, 2], large=10**400, sign="NaN")
    row = {"step": 7, "note": "x" * 100, "other": "[1,2]", "large": "Infinity", "sign": "\\NaN"}
    assert page.state(now)["history"] == [row]


def test_a_step_that_lies_back_is_told_too(page):
    """A page that had heard of step 6 heard of none before it any more."""
    for step in (0, 6, 3, 0):
        page.log(step=step, loss=step)
    now = page.state(0)["revision"]
    assert page.state(now - 1)["history"] == [{"step": 0, "loss": 0.0}]
    page.log(step=0, other=1)
    assert page.state(now)["history"] == [{"step": 0, "loss": 0.0, "other": 1.0}]
    assert sorted(row["step"] for row in page.state(0)["history"]) == [0, 3, 6]


def test_an_open_page_shows_texts_and_steps_that_lie_back(page, opened):
    page.log(step=6, loss=1.0)
    shown = opened(page.url)
    page.log(step=0, note="hello", loss=float("nan"))
    shown.wait_for_selector("body[data-ready]")  # a function to wait for needs eval, which is off
    wait(shown, lambda: shown.evaluate("app.live.values.has(0)"))
    assert shown.evaluate("[...app.live.metrics].join()") == "loss"


def test_the_loss_is_known_without_logging(page):
    training = Training()
    for _ in range(3):
        training.step()
    row = next(r for r in page.state(0)["history"] if r["step"] == 1)
    assert row["loss (recorded)"] == pytest.approx(training.losses[1])


def test_metrics_of_a_run_are_read_as_they_grow(tmp_path):
    file = tmp_path / "metrics.jsonl"
    with weft.view(metrics=file) as page:
        assert page.state(0)["history"] == []
        file.write_text('{"step": 0, "time": 1.5, "loss": 3.0}\n{"step": 1, "lo')
        assert page.state(0)["history"] == [{"step": 0, "loss": 3.0}]
        with file.open("a") as more:
            more.write('ss": 2.0, "note": "x"}\n')
        assert page.state(1)["history"] == [{"step": 1, "loss": 2.0, "note": "x"}]


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b"[1, 2]", None), (b"null", None), (b"{", None), (b"", None), (b"\xff", None),
        (b'{"step": "a", "x": 1}', None), (b'{"step": 1e999, "x": 1}', None),
        (b"[" * 100_000, None), (b'{"step": [], "x": 1}', None),
        (b'{"step": 1, "x": 1' + b"0" * 400 + b"}", {"step": 1, "x": "Infinity"}),
        (b'{"step": 1, "x": NaN}', {"step": 1, "x": "NaN"}),
        (b'{"step": 1, "\\ud800": 2, "x": "\\udce9"}', {"step": 1, "\ud800": 2, "x": "\udce9"}),
    ],
    ids=lambda x: str(x)[:20],
)  # fmt: skip
def test_lines_that_are_no_metrics_stop_none(line, row, tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b'{"step": 0, "x": 1}\n' + line + b'\n{"step": 2, "x": 3}\n')
    with weft.view(metrics=file) as page:
        told = first_event(page)
        expected = [{"step": 0, "x": 1}, *([row] if row else []), {"step": 2, "x": 3}]
        assert told["history"] == expected == page.state(0)["history"]


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        ({"every": "a"}, TypeError, "an integer as every, got 'a' of type str"),
        ({"every": 0}, ValueError, "every >= 1, got 0"),
        ({"metrics": 5}, TypeError, "metrics as None or str or PathLike, got int"),
        ({"metrics": 0}, TypeError, "metrics as None or str or PathLike, got int"),
        ({"runs": None}, TypeError, "runs as str or PathLike, got NoneType"),
        ({"title": 3}, TypeError, "title as None or str, got int"),
    ],
)
@pytest.mark.parametrize("who", ["view", "listen"])
def test_other_arguments_are_refused(who, how, error, text):
    with pytest.raises(error, match=rf"\[{who}\] expected {text}"):
        getattr(weft, who)(**how)


def test_the_runs_of_a_folder_are_compared(tmp_path, opened):
    for k, rate in enumerate((0.1, 0.2)):
        with weft.experiment({"lr": rate, "depth": 3}, dir=tmp_path / "runs", seed=k) as run:
            for step in range(1200):
                run.log(step, loss=float("nan") if step == 7 else rate / (step + 1))
    with weft.view(runs=tmp_path / "runs") as page:
        one, two = json.loads(ask(page, "runs")[1])
        assert (one["config"], one["state"]) == ({"lr": 0.1, "depth": 3}, "done")
        points = two["series"]["loss"]
        assert 400 <= len(points) <= 501 and points[-1] == [1199, 0.2 / 1200]
        shown = opened(page.url)
        shown.get_by_text(two["id"]).wait_for()
        text = shown.text_content("#stage")
        assert one["id"] in text and "lr" in text and "depth" not in text
        assert shown.locator("canvas[data-metric=loss]").count() == 1
        shown.locator("input[type=checkbox]").first.uncheck()
        assert shown.locator("input[type=checkbox]:checked").count() == 1
    with weft.view(runs=tmp_path / "none") as page:
        assert ask(page, "runs") == (200, "[]")


def test_what_a_thread_left_open_is_not_ended_on_another():
    """A new thread may bear the number of one that has ended."""
    for _ in range(3):
        with weft.view(every=1) as page:
            training = Training()
            thread = threading.Thread(target=lambda t=training: [t.step() for _ in range(3)])
            thread.start()
            thread.join()
            assert page.number == 3 and recorded(page) == [1, 2]
    training = Training()
    training.step()
    assert weft._C._Log.running() is None and "step" not in vars(training.optimizer)
    assert training.model._hooked is False


def test_layers_have_histograms_of_weights_gradients_and_results(page):
    training = Training()
    for _ in range(2):
        training.step()
    rows = json.loads(page.model(1))["layers"]
    weights = {r["name"]: r for r in rows if r["kind"] == "parameter"}
    assert set(weights) == {"first.weight", "first.bias", "second.weight", "second.bias"}
    w = training.model.first.weight
    shown = weights["first.weight"]
    assert sum(shown["weight"]["counts"]) == w.numel() == shown["weight"]["of"]
    assert shown["weight"]["mean"] == pytest.approx(w.mean().item(), abs=1e-6)
    assert shown["gradient"]["std"] == pytest.approx(w.grad.std(correction=0).item(), rel=1e-4)
    assert {r["name"]: r["class"] for r in rows if r["kind"] == "result"} == {
        "first": "Linear", "second": "Linear", "Net": "Net",
    }  # fmt: skip


def test_a_value_that_is_alive_can_be_asked_for_and_no_other(page):
    training = Training()
    kept = weft.full((3, 4), 2.0)
    weft.manual_seed(0)
    for _ in range(2):
        training.optimizer.zero_grad()
        loss = (training.model.first(kept).tanh() * 3).sum()
        loss.backward()
        training.optimizer.step()
    model = json.loads(page.model(1))
    names = {name: int(value) for value, name in model["value_names"].items()}
    weight = page.value(1, names["weight"] if "weight" in names else names["first.weight"])
    assert weight["shape"] == (8, 4) and weight["now"] == 2
    of = [model["names"]["texts"][i] for i in _unpack(model["names"]["of"])]
    first, inputs, outputs = (
        _unpack(model["events"][n]) for n in ("operands", "inputs", "outputs")
    )
    operands = _unpack(model["operands"])
    result = {
        name: int(operands[int(first[k]) + int(inputs[k])])
        for k, name in reversed(list(enumerate(of)))  # forward
        if outputs[k]
    }
    assert page.value(1, result["sum"])["shape"] == ()  # `loss`
    assert page.value(1, result["tanh"]) is None
    assert page.value(0, result["sum"]) is None
    page.control({"look": {"op": "tanh", "line": f"{os.path.basename(__file__)}"}})
    for _ in range(2):
        training.optimizer.zero_grad()
        (training.model.first(kept).tanh() * 3).sum().backward()
        training.optimizer.step()
    seen = [p["shape"] for p in json.loads(page.model(page.number - 1))["pictures"].values()]
    assert [3, 8] in seen


def _unpack(column):
    return np.frombuffer(base64.b64decode(column["d"]), "<" + column["t"])


def test_a_fault_of_the_page_does_not_end_the_training(page, monkeypatch):
    from weft.see.view.layers import Layers

    training = Training()
    training.step()
    monkeypatch.setattr(Layers, "finish", lambda *a: 1 / 0)
    with pytest.warns(UserWarning, match="the page ends at step 1: ZeroDivisionError"):
        training.step()
    training.step()
    assert weft._C._Log.running() is None and not page.state(0)["active"]
    assert len(training.losses) == 3


def test_hooks_of_every_optimizer_run_around_its_own():
    from weft.optim import optimizer as module

    said = []
    before = module.register_optimizer_step_pre_hook(lambda o, a, k: said.append("all before"))
    first = Training()
    after = module.register_optimizer_step_post_hook(lambda o, a, k: said.append("all after"))
    first.optimizer.register_step_pre_hook(lambda o, a, k: said.append("before"))
    first.optimizer.register_step_post_hook(lambda o, a, k: said.append("after"))
    first.step()
    assert said == ["all before", "before", "after", "all after"]
    Training().step()
    before.remove()
    after.remove()
    first.step()
    assert said[4:] == ["all before", "all after", "before", "after"]


# ---- pictures ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "tiles", "rows", "cols", "note"),
    [
        ((), 1, 1, 1, ""), ((5,), 1, 1, 5, ""), ((130,), 1, 3, 64, ""), ((0,), 1, 0, 1, ""),
        ((3, 5), 1, 3, 5, ""), ((2, 3, 5), 2, 3, 5, ""), ((0, 3), 1, 0, 3, ""),
        ((20, 3, 5), 8, 3, 5, "the first 8 of 20, 120 of 300 elements"),
        ((4, 2, 3, 5), 2, 3, 5, "the first of 4, 30 of 120 elements"),
        ((128, 128), 1, 64, 64, "every 2. row and 2. column, 4096 of 16384 elements"),
        ((4, 4096), 1, 4, 1024, "every 1. row and 4. column, 4096 of 16384 elements"),
    ],
)  # fmt: skip
def test_a_picture_has_the_last_two_dims_and_says_what_it_leaves_out(
    shape, tiles, rows, cols, note
):
    p = samples.picture(weft.arange(float(np.prod(shape))).reshape(shape))
    assert (p["tiles"], p["rows"], p["cols"], p["note"]) == (tiles, rows, cols, note)
    assert len(_unpack({"t": "u1", "d": p["data"]})) == tiles * rows * cols


def test_a_picture_tells_nan_and_inf_and_scales_the_rest():
    p = samples.picture(weft.tensor([[0.0, float("nan"), 4.0], [float("-inf"), 2.0, 1.0]]))
    data = _unpack({"t": "u1", "d": p["data"]}).tolist()
    assert data == [0, samples.NAN, samples.LEVELS - 1, samples.INF, 126, 63]
    assert (p["low"], p["high"], p["nans"], p["infs"]) == (0.0, 4.0, 1, 1)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int64", "bool", "complex64", "float64"])
def test_pictures_and_histograms_of_every_kind_of_number(dtype):
    t = (
        weft.tensor([[0, 1], [1, 1]])
        .to(getattr(weft, dtype))
        .requires_grad_(dtype in ("bfloat16", "float64"))
    )
    assert samples.picture(t)["high"] == 1.0
    bars = samples.histogram(t.transpose(0, 1))
    assert bars["mean"] == 0.75 and bars["counts"][0] == 1 and bars["counts"][-1] == 3


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", [(-1.7e308, 1.7e308), (1e308, 1e308), (0.0, 5e-324), (1e39, 0)])
def test_pictures_and_histograms_of_the_largest_and_least_numbers(values):
    """What is beyond float32 was infinite."""
    t = weft.tensor([values], dtype=weft.float64)
    bars, image = samples.histogram(t), samples.picture(t)
    assert (image["low"], image["high"]) == (bars["low"], bars["high"])
    assert (bars["low"], bars["high"]) == (min(values), max(values))
    assert sum(bars["counts"]) == 2 and bars["odd"] == image["infs"] == image["nans"] == 0
    assert np.isfinite([bars["mean"], bars["std"]]).all()
    levels = list(base64.b64decode(image["data"]))
    if max(values) > 1e-300:
        expected = [0 if v == min(values) else samples.LEVELS - 1 for v in values]
        assert levels == expected


def test_a_large_tensor_is_sampled():
    t = weft.ones(1).expand(1 << 14, 1 << 15)  # 2 GB as it looks
    p = samples.picture(t, samples.MOST_PIXELS)
    assert p["rows"] * p["cols"] <= samples.MOST_PIXELS
    assert p["note"].endswith(f"of {1 << 29} elements")
    bars = samples.histogram(t)
    assert bars["seen"] <= samples.ELEMENTS < bars["of"] == 1 << 29


# ---- the page ----------------------------------------------------------------------------------


def at(shown):
    return int(shown.get_attribute("body", "data-step"))


def wait(shown, condition):
    for _ in range(600):
        if condition():
            return
        shown.wait_for_timeout(50)
    raise AssertionError("it did not come")


def test_the_page_follows_holds_and_scrubs(page, opened, colours):
    training = Training()
    with running(page, training):
        shown = opened(page.url)
        shown.wait_for_selector("body[data-step]")
        first = at(shown)
        wait(shown, lambda: at(shown) > first)
        assert "step" in shown.text_content("#live .state")
        shown.get_by_role("button", name="Hold").click()
        shown.get_by_text("held after step").wait_for()
        held = page.number
        time.sleep(0.1)
        assert page.number == held
        shown.get_by_role("button", name="Record next").click()
        shown.wait_for_selector(f"body[data-step='{held}']")
        assert page.number == held + 1
        shown.get_by_role("button", name="‹").click()
        before = recorded(page)[-2]
        shown.wait_for_selector(f"body[data-step='{before}']")
        assert shown.text_content("#title") == f"test, step {before}"
        assert "1 structure in" in shown.text_content("#live .legend")
        shown.click("[data-tab=Layers]")
        assert shown.locator(".card").count() == 3
        shown.get_by_text("weights and gradients").click()
        assert "first.weight" in shown.text_content("#stage")
        assert colours(shown) > 30
        shown.get_by_role("button", name="Follow").click()
        shown.get_by_role("button", name="Hold").click()
        wait(shown, lambda: at(shown) > held)


def test_a_breakpoint_is_set_hit_changed_and_released_from_the_page(page, opened):
    training = Training()
    with running(page, training):
        shown = opened(page.url)
        shown.wait_for_selector("body[data-step]")
        shown.click("[data-tab=Stops]")
        shown.fill("input[name=op]", "tanh")
        shown.fill("input[name=line]", os.path.basename(__file__))
        shown.get_by_role("button", name="Set a breakpoint").click()
        shown.wait_for_selector("body[data-step='-1']")
        assert "op='tanh'" in shown.text_content("#stage")
        assert "self" in shown.text_content("#stage") and "float32[3, 4]" in shown.text_content(
            "#stage"
        )
        assert shown.text_content("#details h2") == "tanh"
        assert shown.locator("#details .picture").count() >= 1
        assert "self.second(self.first(x).tanh())" in shown.text_content("#details .on")
        stopped = page.number
        shown.get_by_role("button", name="Next op").click()
        shown.get_by_text("linear -> float32[3, 1]").first.wait_for()
        shown.on("dialog", lambda dialog: dialog.accept("5"))
        shown.get_by_role("button", name="Change …").click()
        shown.locator("td", has_text="op=tanh").wait_for()
        shown.locator("#stage").get_by_role("button", name="Remove").click()
        while page.state(0)["stops"]:  # it may stop once more before it goes
            page.control({"do": "go"})
            time.sleep(0.02)
        assert page.number >= stopped
    assert 25.0 in [round(x, 3) for x in training.losses]


def test_who_stops_goes_on_when_the_page_is_closed(page, opened):
    training = Training()
    with running(page, training):
        shown = opened(page.url)
        shown.wait_for_selector("body[data-step]")
        page.control({"stop": {"op": "tanh"}})
        shown.wait_for_selector("body[data-step='-1']")
        shown.goto("about:blank")
        stopped = page.number
        end = time.time() + 30
        while page.number < stopped + 3 and time.time() < end:
            time.sleep(0.05)
        assert page.number >= stopped + 3
        assert page.state(0)["stops"][0]["hits"] >= 1


def test_what_is_asked_for_while_it_stops_holds_from_the_next_step_on():
    training, seen = Training(), []
    with weft.view(every=1) as page:
        page.watch(1)

        def answer():
            stopped = page.state(0)["stopped"]
            while len(seen) < 3:
                page.wait(0.05)
                now = page.state(0)["stopped"]
                if now is not None and now != stopped:
                    seen.append((now["step"], now["text"].split(" ")[0]))
                    if len(seen) == 1:
                        page.control({"stop": {"op": "mean"}})
                        page.control({"remove": 0})
                    if len(seen) == 3:
                        page.control({"remove": 1})
                    page.control({"do": "go"})
                stopped = now

        page.control({"stop": {"op": "tanh"}})
        thread = threading.Thread(target=answer)
        thread.start()
        for _ in range(6):
            training.step()
        thread.join(60)
        page.watch(-1)
        assert seen == [(1, "tanh"), (2, "mean"), (3, "mean")]
        assert page.number == 6 and page.state(0)["stops"] == []
    assert weft._C._Log.running() is None


# ---- processes ---------------------------------------------------------------------------------

PROGRAM = """
import sys, time, weft
model = weft.nn.Linear(2, 1)
optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
def step():
    optimizer.zero_grad()
    model(weft.ones(1, 2)).sum().backward()
    optimizer.step()
"""


def python(*arguments, **how):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, **how
    )


def test_a_process_with_a_page_ends(tmp_path):
    program = PROGRAM + "page = weft.view(every=1)\nfor _ in range(5): step()\nprint(page.number)"
    run = python("-c", program, cwd=tmp_path)
    assert run.returncode == 0 and run.stdout == "5\n"
    assert run.stderr.startswith("[view] http://127.0.0.1:") and len(run.stderr.splitlines()) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_has_no_page(tmp_path):
    program = PROGRAM + (
        "import os\npage = weft.view(every=1)\nstep(); step()\n"
        "if not (pid := os.fork()):\n"
        "    step(); page.log(loss=1)\n"
        "    assert page.number == 2 and weft._C._Log.running() is None\n"
        "    assert weft.view() is not page\n"
        "    os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
        "step()\n"
        "import urllib.request\n"
        "print(page.number, urllib.request.urlopen(page.url).status)\n"
    )
    run = python("-W", "error", "-c", program, cwd=tmp_path)
    assert run.stdout == "7\n3 200\n", run.stderr


def test_a_process_that_listens_is_reached_by_its_number(tmp_path):
    program = PROGRAM + "weft.listen(every=1)\nprint('ready', flush=True)\nwhile True: step()"
    surroundings = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=surroundings
    )
    try:
        assert process.stdout.readline() == "ready\n"
        (file,) = tmp_path.glob("weft-*/*.json")
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700
        run = python("-m", "weft", "view", "--attach", str(process.pid), env=surroundings)
        assert run.returncode == 0, run.stderr
        url = run.stdout.strip()
        end = time.time() + 60
        while time.time() < end:
            with contextlib.suppress(OSError):
                data = urllib.request.urlopen(f"{url}step/1").read()
                break
            time.sleep(0.05)
        assert json.loads(data)["step"] == 1
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
    assert not file.exists()
    run = python("-m", "weft", "view", "--attach", str(process.pid), env=surroundings)
    assert run.returncode == 1 and "that called weft.listen()" in run.stderr


def test_a_folder_that_others_can_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder().chmod(0o755)
    with pytest.raises(PermissionError, match="a folder of this user alone"):
        folder()


def test_the_command_runs_a_script_as_python_would(tmp_path):
    script = tmp_path / "script.py"
    (tmp_path / "beside.py").write_text("name = 'beside'")
    script.write_text(
        PROGRAM + "import beside\nstep()\nprint(sys.argv[1:], __name__, beside.name)\n"
        "print(weft.view().number)\nsys.exit(3)"
    )
    run = python("-m", "weft", "view", str(script), "a", "--b", cwd=tmp_path.parent)
    assert run.returncode == 3, run.stderr
    assert run.stdout == "['a', '--b'] __main__ beside\n1\n"
    script.write_text("raise OSError('planted')")
    run = python("-m", "weft", "view", str(script))
    assert run.returncode == 1 and "planted" in run.stderr
    assert python("-m", "weft", "view").returncode == 2


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["nofile.py"], "[view] expected a script that can be read, got"),
        (["."], "[view] expected a script that can be read, got"),
        (["--every", "0", "script.py"], "[view] expected every >= 1, got 0"),
    ],
)
def test_the_command_says_in_a_line_what_is_wrong(words, text, tmp_path):
    (tmp_path / "script.py").write_text("")
    run = python("-m", "weft", "view", *words, cwd=tmp_path)
    assert run.returncode == 2 and run.stderr.startswith(text), run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_files_of_killed_processes_are_removed(tmp_path, monkeypatch, page):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    stale, live = folder() / f"{dead.pid}.json", folder() / f"{os.getppid()}.json"
    for listens in (lambda: announce(page), lambda: attach(dead.pid)):
        for file in (stale, live):
            file.write_text("{}")
        with contextlib.suppress(ProcessLookupError):
            listens()
        assert not stale.exists() and live.exists()

"""What a graph is saved as: a page without a network, its drawing, the model behind both."""

import json
import re
import sys
import xml.etree.ElementTree as xml

import numpy as np
import pytest

import weft
from weft.see.view import drawing, offline
from weft.see.view import model as models


class Cell(weft.nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = weft.nn.Linear(4, 4)

    def forward(self, x, h):
        return (self.mix(x) + h).tanh()


class Walk(weft.nn.Module):
    """A loop over the input, with a residual sum and a branch on a value."""

    def __init__(self):
        super().__init__()
        self.cell = Cell()
        self.out = weft.nn.Linear(4, 1)

    def forward(self, xs):
        h = first = weft.zeros(4)
        for x in xs:
            h = self.cell(x, h)
        if h.sum() > -100:
            h = h.log()
        return self.out(h + first).sum()


def step(rounds=5, **how):
    """A graph of one step of training."""
    weft.manual_seed(0)
    model = Walk()
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
    with weft.record(**{"statistics": True, **how}) as g:
        model(weft.ones(rounds, 4)).backward()
        optimizer.step()
    return g


def unpack(column):
    import base64

    return np.frombuffer(base64.b64decode(column["d"]), "<" + column["t"])


def test_the_model_holds_what_the_graph_does():
    g = step()
    model = json.loads(json.dumps(models.model_of(g)))
    columns = {name: unpack(c) for name, c in model["events"].items()}
    names, paths = (
        [model[of]["texts"][i] for i in unpack(model[of]["of"])] for of in ("names", "paths")
    )
    operands, dims = unpack(model["operands"]), unpack(model["dims"])
    values = {name: unpack(c) for name, c in model["values"].items()}
    for k, event in enumerate(g):
        assert names[k] == event.name and paths[k] == event.module
        assert model["kinds"][columns["kind"][k]] == event.kind
        assert columns["parent"][k] == (event.parent.number if event.parent else -1)
        assert columns["forward"][k] == (event.forward.number if event.forward else -1)
        assert columns["time"][k] == pytest.approx(event.time, rel=1e-6)
        if event.site:
            file, line, function = model["sites"][columns["site"][k]]
            assert (model["files"][file], line, function) == tuple(event.site)
            assert model["source"][file][str(line)].strip() == event.site.source
        first = columns["operands"][k]
        got = operands[first : first + columns["inputs"][k]]
        assert got.tolist() == [-1 if v is None else v.number for v in event.inputs]
        for v in event.outputs:
            a = int(values["dims"][v.number])
            assert dims[a : a + values["ndim"][v.number]].tolist() == list(v.shape)
            word = model["dtypes"][str(values["dtype"][v.number])][0]
            assert f"torch.{word}" == str(v.dtype)
    of = dict(zip(unpack(model["statistics"]["value"]).tolist(), range(10**6)))
    worst = g.find(nan=True)[0].outputs[0]
    assert unpack(model["statistics"]["nans"])[of[worst.number]] == worst.statistics["nan"] > 0
    assert model["memory"]["lines"] == [list(row) for row in g.memory().lines]
    assert set(model["value_names"].values()) >= {"cell.mix.weight", "out.bias"}


def test_every_event_is_in_one_item_of_the_tree_or_inside_a_call():
    g = step()
    tree = models.model_of(g)["tree"]
    events = unpack(tree["events"]).tolist()
    assert len(set(events)) == len(events) == unpack(tree["count"]).sum()
    inside = {e.number for e in g if e.parent and e.parent.kind in ("call", "node")}
    assert set(range(len(g))) - set(events) == inside


def test_the_structure_has_a_name_that_the_length_of_a_loop_does_not_change():
    names = {models.model_of(step(n))["structure"] for n in (3, 5, 5, 9)}
    assert len(names) == 1
    with weft.record() as g:
        Walk()(weft.ones(3, 4))
    assert models.model_of(g)["structure"] not in names


def test_a_column_is_as_narrow_as_its_numbers():
    for numbers, kind in (
        ([], "u1"), ([0, 255], "u1"), ([-1, 3], "i2"), ([0, 65535], "u2"), ([-40000], "i4"),
        ([2**32 - 1], "u4"), ([2**40], "f8"), ([-(2**40)], "f8"),
    ):  # fmt: skip
        packed = models.pack(np.asarray(numbers, np.int64))
        assert packed["t"] == kind and unpack(packed).tolist() == numbers


def test_the_page_and_its_assets_are_small():
    assert sum(len(text.encode()) for text in offline.assets()) <= 150_000
    page = offline.page_of(None, "x")
    assert not re.search(r"(src|href)=[\"']?(https?:)?//|@import|url\((?!data)", page)


@pytest.mark.parametrize("title", ["<b>&\"'", "{{css}} </script><script>alert(1)</script>"])
def test_a_title_is_text(title, tmp_path, opened):
    step().save(tmp_path / "a.html", title=title)
    page = opened((tmp_path / "a.html").as_uri())
    assert page.text_content("#title") == title


def test_a_page_shows_what_was_recorded(opened, tmp_path, colours):
    g = step()
    g.save(tmp_path / "step.html")
    page = opened((tmp_path / "step.html").as_uri())
    assert page.text_content("#title") == "step"
    rows = page.locator(".row")
    texts = rows.all_text_contents()
    assert any(t.lstrip("▾▸ ").startswith("Walk") for t in texts)
    assert any("×5" in t for t in texts)  # the loop, rolled
    page.locator(".row", has_text="log").first.click()
    details = page.locator("#details")
    assert details.locator("h2").text_content() == "log"
    chosen = details.locator("pre.source span.on").text_content()
    assert "h = h.log()" in chosen
    assert "nan" in details.text_content() and "LogBackward0" in details.text_content()
    details.get_by_text("LogBackward0").click()
    assert details.locator("h2").text_content() == "LogBackward0"
    details.locator(".link", has_text="log ").first.click()
    assert details.locator("h2").text_content() == "log"
    assert colours(page) > 40
    for tab, said in (
        ("Drawing", "cell: Cell"), ("Memory", "Alive at the peak"), ("Profile", "in kernels"),
        ("Batches", "Nothing was batched"),
    ):  # fmt: skip
        page.click(f"[data-tab={tab}]")
        assert said in page.text_content("#stage")
        assert colours(page) > 20


def test_a_page_shows_kinds_of_events_that_it_has_no_words_for(opened, tmp_path):
    step().save(tmp_path / "step.html")
    page = opened((tmp_path / "step.html").as_uri())
    kinds = "app.graph.model.kinds"
    page.evaluate(f"{{ {kinds}[{kinds}.indexOf('module')] = 'novel'; }}")
    page.click("[data-tab=Profile]")
    assert "novel" in page.text_content("#stage")


def test_instances_of_a_rolled_row_are_stepped_through(opened, tmp_path):
    g = step()
    g.save(tmp_path / "step.html")
    page = opened((tmp_path / "step.html").as_uri())
    page.fill("#search", "tanh")
    page.locator(".row", has_text="tanh").first.click()
    assert page.text_content(".stepper span") == "1 of 5"
    for at in ("2 of 5", "3 of 5"):
        page.get_by_label("the next one").click()
        assert page.text_content(".stepper span") == at
    assert page.evaluate("app.event") == g.find("tanh")[2].number


def test_keys_walk_the_tree_find_and_switch(opened, tmp_path):
    step().save(tmp_path / "step.html")
    page = opened((tmp_path / "step.html").as_uri(), dark=True)
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("/")
    page.keyboard.type("sgd")
    page.keyboard.press("Enter")
    assert page.text_content("#details h2") == "sgd"
    page.keyboard.press("Escape")
    page.locator(".rows").focus()
    page.keyboard.press("Home")
    first = page.text_content("#details h2")
    page.keyboard.press("ArrowDown")
    assert page.text_content("#details h2") != first
    page.keyboard.press("4")
    assert page.locator("[data-tab=Profile]").get_attribute("aria-selected") == "true"


def test_the_profile_accounts_for_all_of_the_time(opened, tmp_path):
    g = step(rounds=40)
    g.save(tmp_path / "step.html")
    page = opened((tmp_path / "step.html").as_uri())
    got = page.evaluate(
        """() => {
            const p = profileOf(app.graph), rows = [...p.groups.op.values()];
            const sum = rows.reduce((a, r) => a + r.kernel + r.over, 0);
            return [p.parts, p.between, app.graph.model.seconds, sum];
        }"""
    )
    parts, between, whole, grouped = got
    assert sum(parts.values()) + between == pytest.approx(whole, rel=1e-3)
    assert grouped == pytest.approx(sum(parts.values()), rel=1e-6)
    leaves = [e for e in g if e.kind == "call" and not e.children]
    assert parts["kernels"] == pytest.approx(sum(e.time for e in leaves), rel=1e-3)


def test_a_narrow_window_shows_all_below_one_another(opened, tmp_path, colours):
    step().save(tmp_path / "step.html")
    page = opened((tmp_path / "step.html").as_uri(), size=(420, 800))
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    page.locator(".row").nth(1).click()
    box = page.locator("#details").bounding_box()
    assert box["x"] == 0 and box["width"] > 400
    assert colours(page) > 30


def test_many_ops_open_with_few_rows_in_the_document(opened, tmp_path):
    with weft.record() as g:
        x = weft.ones(2)
        for k in range(10_000):
            x = x + 1 if hash((k, 7)) % 3 else x * 2
    assert len(g) > 10_000
    g.save(tmp_path / "long.html")
    page = opened((tmp_path / "long.html").as_uri())
    assert page.evaluate("app.graph.count") == len(g)
    assert 10 < page.locator(".row").count() < 120
    page.evaluate("document.querySelector('.rows').scrollTop = 1e9")
    page.wait_for_timeout(100)
    shown = page.locator(".row").last.get_attribute("data-item")
    assert int(shown) == page.evaluate("app.graph.tree.count") - 1
    longest = page.evaluate(
        """() => {
            const g = app.graph, span = (e) => g.to[e] - g.from[e];
            let best = 0;
            for (let e = 1; e < g.count; e++) if (span(e) > span(best)) best = e;
            return [best, app.strip.x((g.from[best] + g.to[best]) / 2)];
        }"""
    )
    page.locator("#strip canvas").click(position={"x": longest[1], "y": 6})
    assert page.evaluate("app.event") == longest[0]
    assert page.text_content("#details h2") == g[longest[0]].name


def test_batches_show_with_what_kept_calls_apart(opened, tmp_path):
    f = weft.autobatch(lambda x: (x * 2).sum().tanh())
    with weft.record() as g, weft.explain() as report:
        f([weft.ones(n) for n in (3, 3, 3, 4, 3)])
    g.save(tmp_path / "a.html", report=report)
    g.save(tmp_path / "b.html")
    page = opened((tmp_path / "a.html").as_uri())
    page.click("[data-tab=Batches]")
    text = page.text_content("#stage")
    assert f"{report.calls} calls ran as {report.batches}" in text
    assert "lambda x: (x * 2).sum().tanh()" in text and "flush" in text
    page = opened((tmp_path / "b.html").as_uri())
    page.click("[data-tab=Batches]")
    assert "weft.explain" in page.text_content("#stage")


# ---- drawings ----------------------------------------------------------------------------------


def boxes(text):
    """(kind, label) of the boxes of an SVG."""
    root = xml.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    out = []
    for group in root.iter(f"{space}g"):
        label = group.find(f"{space}text")
        if label is not None:
            out.append((group.get("class"), "".join(label.itertext())))
    return out


def test_a_drawing_has_modules_loops_and_arrows(tmp_path):
    step().save(tmp_path / "step.svg")
    text = (tmp_path / "step.svg").read_text()
    found = boxes(text)
    assert ("wd-module", "Walk") in found and ("wd-module", "cell: Cell ×5") in found
    assert ("wd-bad", "log[4]") in found
    assert any(kind == "wd-pass" and label.startswith("backward") for kind, label in found)
    assert text.count("<path") > 8
    with weft.record() as g:
        x = weft.ones(3)
        y = x * 2
        z = y.exp()
        z = z.sin()
        z + y
    g.save(tmp_path / "skip.svg")
    text = (tmp_path / "skip.svg").read_text()
    assert len(re.findall(r'd="M[^"]*C', text)) == 1  # one arc, past exp and sin
    assert len(re.findall(r'd="M[^"]*L[^"]*" marker-end', text)) == 4


def test_boxes_lie_within_their_frames_and_apart(tmp_path):
    from weft.see.text import items_of
    from weft.see.view.drawing import drawing_of

    g = step()
    drawing = drawing_of(g, items_of(g, backward=True))
    for box in drawing.boxes:
        assert 0 <= box.x and box.x + box.width <= drawing.width + 1e-6
        down = box.y
        for child in box.inside:
            assert child.y >= down and child.x >= box.x
            assert child.x + child.width <= box.x + box.width + 1e-6
            down = child.y + child.height
        if box.inside and box.kind != "top":
            assert down <= box.y + box.height


def test_a_large_drawing_stays_closed_where_it_would_be_too_large(tmp_path):
    with weft.record() as g:
        x = weft.ones(2)
        for k in range(3000):
            x = x + 1 if hash((k, 7)) % 3 else x * 2
    g.save(tmp_path / "long.svg")
    assert 100 < len(boxes((tmp_path / "long.svg").read_text())) < 300


def test_a_notebook_shows_the_drawing():
    html = step()._repr_html_()
    assert html.startswith("<div") and ("wd-module", "Walk") in boxes(
        html[html.index("<svg") : html.index("</svg>") + 6]
    )
    assert weft.graph(weft.ones(2, requires_grad=True).sum())._repr_html_()


def test_a_png_through_matplotlib(tmp_path):
    image = pytest.importorskip("matplotlib.image")
    step().save(tmp_path / "step.png")
    pixels = image.imread(tmp_path / "step.png")
    assert pixels.shape[0] > 300 and len(np.unique(pixels.reshape(-1, 4), axis=0)) > 50


class Nested(weft.nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.inner = Nested(depth - 1) if depth else weft.nn.Identity()

    def forward(self, x):
        return self.inner(x.tanh())


def test_a_png_has_no_more_pixels_than_can_be_looked_at(tmp_path, monkeypatch):
    """A module of 120 levels made one of 200 million."""
    image = pytest.importorskip("matplotlib.image")
    with weft.record() as g:
        Nested(60)(weft.ones(1))
    for pixels in (1_000_000, 10_000):  # with fewer boxes, and smaller ones too
        monkeypatch.setattr(drawing, "PIXELS", pixels)
        g.save(tmp_path / "deep.png")
        height, width = image.imread(tmp_path / "deep.png").shape[:2]
        assert pixels / 10 < height * width <= pixels * 1.01


@pytest.mark.filterwarnings("error")
def test_statistics_beyond_float32_are_kept(tmp_path):
    with weft.record(statistics=True) as g:
        weft.full((3,), 1e200, dtype=weft.float64) * 2
    g.save(tmp_path / "large.json")
    model = json.loads((tmp_path / "large.json").read_text())
    assert 2e200 in unpack(model["statistics"]["most"])


def test_the_page_says_where_the_peak_is(opened, tmp_path):
    """It was "at the end of" an event whose begin it was at, too."""

    class Freeing(weft.nn.Module):
        def forward(self, x):
            self.large = None
            return x + 1

    module, x = Freeing(), weft.ones(1)
    module.large = weft.ones(1 << 20)
    with weft.record() as begin:
        module(x)
    with weft.record() as end:
        weft.ones(1 << 20)
    for name, g in {"begin": begin, "end": end}.items():
        g.save(tmp_path / f"{name}.html")
        page = opened((tmp_path / f"{name}.html").as_uri())
        page.click("[data-tab=Memory]")
        assert f"at the {name} of" in page.text_content("#stage")


def test_a_png_without_matplotlib_says_what_is_missing(tmp_path, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=r"\[save\] expected matplotlib.*weft\[plot\]"):
        step().save(tmp_path / "step.png")
    assert not (tmp_path / "step.png").exists()


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\[save\] expected a path that ends in .*'x.pdf'"):
        step().save(tmp_path / "x.pdf")


@pytest.mark.parametrize("times", [True, False])
def test_graphs_without_times_or_events_open_too(opened, tmp_path, times):
    g = step(times=times, statistics=False)
    graphs = {"plain": g, "after": weft.graph(weft.ones(2, requires_grad=True).exp().sum())}
    with weft.record() as empty:
        pass
    graphs["empty"] = empty
    for name, one in graphs.items():
        one.save(tmp_path / f"{name}.html")
        page = opened((tmp_path / f"{name}.html").as_uri())
        for tab in ("Drawing", "Memory", "Profile", "Batches", "Graph"):
            page.click(f"[data-tab={tab}]")
        assert page.locator(".row").count() == 0 if name == "empty" else True

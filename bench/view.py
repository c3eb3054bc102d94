"""How long the page takes to open, and what it costs the program: python bench/view.py

Chromium opens a saved page of about 10^4 and 10^5 events: until the tree and the strip are painted,
and how long scrolling, zooming and searching take then. Beside it a picture of a tensor of 1 GB,
and what a step of the Tree-LSTM on ListOps costs where few steps, one in 50 or each is recorded.

"""

from __future__ import annotations

import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import weft
from weft.see.view.offline import assets
from weft.see.view.samples import MOST_PIXELS, picture

FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-gpu", "--no-first-run"]


class Cell(weft.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = weft.nn.Linear(4, 4)

    def forward(self, x: Any, branch: bool) -> Any:
        x = self.mix(x).tanh()
        return x * 2 if branch else x


def graph_of(ops: int) -> weft.see.Graph:
    """Of about so many events: cells in an order that does not roll up."""
    rng = random.Random(0)
    cells = weft.nn.ModuleList([Cell() for _ in range(8)])
    x = weft.ones(2, 4)
    with weft.record(statistics=True) as g:
        for _ in range(ops // 15):  # each some five events forward, ten backward
            x = rng.choice(cells)(x, rng.random() < 0.5)
        x.sum().backward()
    return g


def opening(browser: Any, ops: int) -> str:
    g = graph_of(ops)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "g.html")
        start = time.perf_counter()
        g.save(file)
        saved = time.perf_counter() - start
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        start = time.perf_counter()
        page.goto(file.as_uri())
        page.wait_for_selector("body[data-ready]")
        page.evaluate(
            "() => new Promise(f => requestAnimationFrame(() => requestAnimationFrame(f)))"
        )
        opened = time.perf_counter() - start
        frames = page.evaluate(
            """() => {
                const now = () => performance.now();
                const time = (f) => { const t = now(); f(); return now() - t; };
                const rows = app.tree, strip = app.strip, end = app.graph.end;
                return {
                    scroll: time(() => { rows.box.scrollTop = 1e6; rows.draw(); }),
                    zoom: time(() => strip.look(end * 0.3, end * 0.6)),
                    find: time(() => rows.find("tanh")),
                };
            }"""
        )
        size = file.stat().st_size
        page.close()
    rest = ", ".join(f"{name} {ms:.0f} ms" for name, ms in frames.items())
    return (
        f"{len(g):>7} events: open in {opened:.2f} s "
        f"({size / 1e6:.1f} MB, saved in {saved:.2f} s); {rest}"
    )


def training(every: int) -> float:
    """Milliseconds of a step of 16 trees, the best of several runs' medians."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    import listops

    rng = random.Random(0)
    weft.manual_seed(0)
    model = listops.TreeLSTM(64)
    optimizer = weft.optim.Adam(model.parameters())

    @weft.autobatch(out_stack=True)
    def losses_of(tree: Any, value: int) -> Any:
        return weft.nn.functional.cross_entropy(model(tree), weft.tensor(value))

    batch = [listops.expression(rng, 3) for _ in range(16)]
    times = []
    for _ in range(200):
        start = time.perf_counter()
        optimizer.zero_grad()
        losses_of(*zip(*batch, strict=True)).mean().backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
    # the mean of each window of 50, of which one step is recorded where one in 50 is
    return 1e3 * min(statistics.mean(times[k : k + 50]) for k in range(20, 170, 50))


def main() -> None:
    print(f"assets: {sum(len(text.encode()) for text in assets()) / 1e3:.0f} KB")
    t = weft.randn(1 << 14, 1 << 14)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        p = picture(t, MOST_PIXELS)
        times.append(time.perf_counter() - start)
    print(f"picture of 1 GB: {1e3 * statistics.median(times):.1f} ms ({p['note']})")
    del t
    plain = training(0)
    print(f"a step of the Tree-LSTM: {plain:.2f} ms", end="")
    for every in (1000, 50, 1):
        with weft.view(every=every):
            seen = training(every)
        print(f"; one in {every} recorded: {seen:.2f} ms ({seen / plain - 1:+.1%})", end="")
    print()
    path = shutil.which("chromium")
    if path is None:
        sys.exit("no chromium: the page was not opened")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        for ops in (10_000, 100_000):
            print(opening(browser, ops))
        browser.close()


if __name__ == "__main__":
    main()

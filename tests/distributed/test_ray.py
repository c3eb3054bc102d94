"""`weft.distributed.ray`: where workers run, what they come to, and what a loss leaves of it."""

import contextlib
import os
import signal
import sys
import threading
import time
from importlib.util import find_spec

import pytest
from launched import HAS_MPI

import weft
import weft.distributed as dist
from weft.distributed import ray
from weft.distributed.ray import needed, progress, saved
from weft.distributed.ray.session import REPORT, REPORT_END
from weft.multiprocessing import ProcessExitedException, ProcessRaisedException

HAS_RAY = find_spec("ray") is not None and find_spec("cloudpickle") is not None
needs_ray = pytest.mark.skipif(
    not (HAS_RAY and HAS_MPI or os.environ.get("WEFT_REQUIRE_RAY")), reason="Ray or MPI is missing"
)

#: An end is a matter of seconds, on a busy machine too; nothing takes longer than the second.
SOON, LIMIT = 15, 90
STEPS = 6


@contextlib.contextmanager
def another_host():
    """A scope whose processes are on a machine with a name of its own, where that may be."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/self/ns/uts", os.O_RDONLY)
    name = b"other"
    if is_another := libc.unshare(0x04000000) == 0:  # CLONE_NEWUTS
        libc.sethostname(name, len(name))
    try:
        yield
    finally:
        if is_another:
            libc.setns(before, 0)
        os.close(before)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Ray keeps tokens and results in the home folder: here one of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def cluster(home):
    """Two nodes on this machine, with two workers' places each."""
    import ray as theirs
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 2, "object_store_memory": 100 << 20}
    made = Cluster(initialize_head=True, head_node_args={"include_dashboard": False, **node})
    with another_host():
        made.other = made.add_node(**node)
    theirs.init(address=made.address, log_to_driver=False)
    yield made
    session = theirs.get_runtime_context().gcs_address
    theirs.shutdown()
    made.shutdown()
    assert not left(session)


@pytest.fixture
def nothing_is_left():
    yield
    assert not left(f"{sys.executable}\0-m\0weft.distributed.rank\0--of-ray")
    assert not left("/weft-ray-")  # daemons, by the script that has them started
    assert not [name for name in os.listdir("/dev/shm") if name.startswith("weft-ray-")]


def left(mark):
    """The processes whose command line has words, once they have had time to end."""
    end = time.monotonic() + SOON
    while (found := list(processes(mark))) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def processes(mark):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            if mark.encode() in file.read():
                yield int(pid)


def train(config):
    """Dropout, Adam and batches of its own for each rank; what is disturbed is so once."""
    rank = dist.get_rank()
    weft.manual_seed(rank)
    layers = [weft.nn.Linear(6, 8), weft.nn.Dropout(0.5), weft.nn.Linear(8, 1)]
    net = weft.nn.parallel.DistributedDataParallel(weft.nn.Sequential(*layers))
    optimizer = weft.optim.Adam(net.parameters(), lr=0.01)
    begin, state = 0, ray.get_checkpoint()
    if state is not None:
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        weft.set_rng_state(state["random"])
        begin = state["step"] + 1
        assert config["disturb"] is not None
    for step in range(begin, STEPS):
        optimizer.zero_grad()
        loss = (net(weft.randn(4, 6)) ** 2).mean()
        loss.backward()
        optimizer.step()
        if step > begin and config["disturb"] is not None:
            config["disturb"](rank, step)
        state = {
            "net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step,
            "random": weft.get_rng_state(),
        }  # fmt: skip
        ray.report({"loss": loss}, checkpoint=state)


def run(disturb=None, **more):
    return ray.run(train, 3, {"disturb": disturb}, progress=False, **more)


def bits(result):
    """All that the ranks have at the end."""
    return [
        [value.tolist() for value in result.get_checkpoint(rank)["net"].values()]
        + [result.get_checkpoint(rank)["random"].tolist()]
        for rank in range(3)
    ]


@pytest.fixture(scope="module")
def undisturbed(cluster):
    result = run()
    assert result.failures == 0 and [told["report"] for told in result.history] == [*range(1, 7)]
    assert result.metrics == {"loss": result.history[-1]["loss"]}
    return result


def assert_same(result, undisturbed, failures):
    assert result.failures == failures
    assert bits(result) == bits(undisturbed)
    assert result.history == undisturbed.history


# What needs no Ray


@pytest.mark.parametrize("name", ["run", "search"])
@pytest.mark.parametrize("missing", ["ray", "cloudpickle"])
def test_without_ray_the_error_says_what_to_install(monkeypatch, name, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(RuntimeError, match=rf"\[ray.{name}\] expected Ray.*pip install 'weft\[ray"):
        getattr(ray, name)(train, {}) if name == "search" else ray.run(train)


@pytest.mark.parametrize(
    "args, error, message",
    [
        ((3,), TypeError, "expected a function, got int"),
        ((train, 0), ValueError, "expected workers to be 1 or more, got 0"),
        ((train, True), ValueError, "expected workers to be 1 or more, got True"),
        ((train, 2.0), ValueError, "expected workers to be 1 or more, got 2.0"),
    ],
)
def test_wrong_use(args, error, message):
    with pytest.raises(error, match=message):
        ray.run(*args)
    with pytest.raises(error, match=message):
        ray.search(args[0], {}, *args[1:])


def test_wrong_settings():
    with pytest.raises(ValueError, match="cpus_per_worker to be 1 or more, got 0"):
        ray.run(train, cpus_per_worker=0)
    with pytest.raises(ValueError, match="expected a strategy of .*, got 'FAR'"):
        ray.run(train, placement_strategy="FAR")
    for wrong in (-2, 1.5, True):
        with pytest.raises(ValueError, match="expected max_failures of -1 or more"):
            ray.FailureConfig(wrong)


def test_outside_of_a_run():
    for call in (ray.get_checkpoint, lambda: ray.report({})):
        with pytest.raises(RuntimeError, match="run or search calls, got a call outside"):
            call()
    with pytest.raises(TypeError, match="expected a dict of metrics, got list"):
        ray.report([1])


@pytest.mark.parametrize(
    "max_failures, failures, without_progress, lost, raised",
    [
        (None, 1, 1, True, False), (None, 9, 2, True, False), (None, 3, 3, False, False),
        (0, 1, 1, False, False), (2, 2, 2, True, True), (2, 3, 1, False, False),
        (-1, 99, 99, True, True),
    ],
)  # fmt: skip
def test_what_starts_again(max_failures, failures, without_progress, lost, raised):
    config = ray.FailureConfig(max_failures)
    assert config.allows(failures, without_progress, is_lost=True) is lost
    assert config.allows(failures, without_progress, is_lost=False) is raised


def test_reports_in_what_ranks_write(capfd):
    """They come in pieces, within lines of the program's; MPI's words about an end are its own."""
    shown = progress.Progress(2, None, False)
    told = REPORT + b'{"number": 1, "metrics": {"a": 2.5}, "is_saved": true}' + REPORT_END
    text = b"before " + told + b"after\n[h:00000] *** An error occurred in Socket closed\nend\n"
    for cut in range(len(text)):
        relay = progress.RunRelay(2, shown)
        for piece in (text[:cut], text[cut:]):
            relay._take(2, 1, piece)
        relay.take_reports()
        assert shown.history == [{"report": 1, "a": 2.5}] and shown.saved == 1
        out = capfd.readouterr().err.replace("[1] ", "")
        assert "before after\n" in out.replace("\nafter", "after") and out.endswith("end\n"), cut
        shown.history.clear()


def test_the_newest_whole_checkpoint(tmp_path):
    folder = str(tmp_path / "new")
    saved.begin(folder)
    assert saved.newest(folder) == 0
    for number in (1, 2):
        saved.write(folder, number, {"rank": 0, "number": number}, 0, 2)
        saved.write(folder, number, {"rank": 1, "number": number}, 1, 2)
        saved.finish(folder, number)
    saved.write(folder, 3, {}, 0, 2)  # and then something ended it
    assert sorted(os.listdir(folder)) == ["checkpoint_000002", "checkpoint_000003.part"]
    saved.begin(folder)
    assert os.listdir(folder) == ["checkpoint_000002"] and saved.newest(folder) == 2
    assert saved.read(folder, 2, 1, 2) == {"rank": 1, "number": 2}
    with pytest.raises(ValueError, match="expected 2 workers, whose states are in .*, got 3"):
        saved.read(folder, 2, 0, 3)
    saved.write(folder, 4, {"of": "all"}, 0, 2)
    saved.finish(folder, 4)
    assert saved.read(folder, 4, 4, 5) == {"of": "all"}


# Two nodes


@needs_ray
def test_what_cannot_be_pickled(cluster):
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"\[ray.run\] expected a function and a config that can"):
        ray.run(lambda: lock.acquire())
    with pytest.raises(TypeError, match="that can be pickled"):
        ray.run(train, config=lock)
    assert needed.dump("run", lambda: 1)


@needs_ray
def test_no_place(cluster, nothing_is_left):
    with pytest.raises(RuntimeError, match=r"expected a cluster with 5 times \{'CPU': 1\} free"):
        ray.run(train, 5, placement_timeout=0.5, progress=False)


@needs_ray
def test_a_killed_worker_and_a_killed_actor(undisturbed, nothing_is_left, capfd):
    """Ray kills an actor where memory is short, and all below it ends."""

    def disturb(rank, step):
        if (rank, step) == (1, 2):
            os.kill(os.getpid(), signal.SIGKILL)
        if (rank, step) == (2, 4):
            os.kill(next(processes("ray::Node")), signal.SIGKILL)
        while step in (2, 4):
            dist.barrier()

    assert_same(run(disturb), undisturbed, failures=2)
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 2, said
    assert "rank 1 was ended by signal 9" in said[0] or "a worker is gone, as rank" in said[0]
    assert said[0].endswith(": all start again from report 2")
    assert "the worker process or its machine is gone" in said[1]
    assert said[1].endswith(": all start again from report 4")


@needs_ray
def test_a_removed_node(cluster, undisturbed, nothing_is_left, tmp_path):
    """Another is on the first one's machine: all workers are there now, and round as before."""
    sign = tmp_path / "sign"

    def disturb(rank, step):
        if step == 3 and not sign.exists():
            dist.barrier()
            sign.touch()
            while True:
                dist.barrier()

    results = []
    thread = threading.Thread(target=lambda: results.append(run(disturb)), daemon=True)
    thread.start()
    end = time.monotonic() + LIMIT
    while not sign.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert sign.exists()
    cluster.remove_node(cluster.other, allow_graceful=False)
    cluster.other = cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    thread.join(LIMIT)
    assert not thread.is_alive()
    assert_same(results[0], undisturbed, failures=1)


@needs_ray
def test_a_function_that_raises(cluster, nothing_is_left, capfd):
    """Its own traceback, once, without frames of what called it; nothing starts again."""

    def fails():
        print("here is rank", dist.get_rank())
        if dist.get_rank() == 1:
            raise ValueError("not so")
        dist.barrier()

    with pytest.raises(ProcessRaisedException) as caught:
        ray.run(fails, 2, progress=False)
    text = str(caught.value)
    assert caught.value.error_index == 1 and text.startswith("\n\n-- Process 1 terminated with")
    assert text.count("Traceback") == 1 and text.endswith("ValueError: not so")
    assert text.count("File") == 1 and ", in fails" in text
    shown = capfd.readouterr()
    lines = [line for line in shown.out.splitlines() if "here" in line]  # Ray may tell, too
    assert sorted(lines) == ["[0] here is rank 0", "[1] here is rank 1"]
    assert "Traceback" not in shown.err and "start again" not in shown.err


@needs_ray
def test_a_function_that_fails_and_may(cluster, nothing_is_left, capfd, tmp_path):
    """It starts again as often as it may; where nothing was saved, from the beginning."""

    def fails(config):
        assert ray.get_checkpoint() is None
        ray.report({"loss": weft.tensor(2.0)})
        if not (tmp_path / "sign").exists():
            (tmp_path / "sign").touch()
            raise ValueError("not so")
        sys.exit(3)

    with pytest.raises(ProcessExitedException, match="rank 0 ended with status 3") as caught:
        ray.run(fails, failure_config=ray.FailureConfig(1), progress=False)
    assert caught.value.exit_code == 3 and caught.value.error_index == 0
    said = capfd.readouterr().err
    assert said.count("rank 0 raised: all start again from the beginning") == 1
    assert said.count("ValueError: not so") == 1


@needs_ray
def test_a_run_goes_on_from_its_folder_with_a_bar(cluster, nothing_is_left, capfd, tmp_path):
    def counts(config):
        begin = (ray.get_checkpoint() or {"i": 0})["i"]
        for i in range(begin, config):
            state = {"i": i + 1}
            ray.report({"i": i}, checkpoint=state if dist.get_rank() == 0 else None)
            assert ray.get_checkpoint() == state

    for workers, end, reports in ((1, 2, [1, 2]), (2, 5, [3, 4, 5])):
        result = ray.run(counts, workers, config=end, checkpoint=tmp_path, total=end)
        assert [told["report"] for told in result.history] == reports
        assert result.metrics == {"i": end - 1} and result.get_checkpoint(1) == {"i": end}
        assert f"{end}/{end}" in (shown := capfd.readouterr().err) and f"i={end - 1}" in shown


@needs_ray
@pytest.mark.parametrize("workers, steps", [(1, [1.0, 2.0, None]), (2, [2.0])])
def test_search(cluster, nothing_is_left, tmp_path, workers, steps):
    """The best of a space; a trial that raises is an error among them."""
    from ray import tune

    def climbs(config):
        height = weft.zeros(())
        for _ in range(2):
            step = weft.tensor(config["step"])
            dist.all_reduce(step)
            height += step
            ray.report({"height": height}, checkpoint={"height": height})

    found = ray.search(
        climbs, {"step": tune.grid_search(steps)}, workers, metric="height", mode="max",
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    )  # fmt: skip
    assert len(found) == len(steps) and len(found.errors) == steps.count(None)
    assert all("climbs" in str(error) for error in found.errors)
    best = found.get_best_result()
    assert best.config == {"step": 2.0} and best.metrics["height"] == 4.0 * workers
    assert best.metrics["training_iteration"] == 2
    if workers == 1:
        state = weft.load(os.path.join(best.checkpoint.path, "state.pt"))
    else:
        state = saved.read(os.path.join(best.path, "weft"), 2, 1, 2)
    assert state == {"height": weft.tensor(4.0 * workers)}

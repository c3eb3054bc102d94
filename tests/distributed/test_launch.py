"""`weft launch`, torchrun's words and `mp.spawn`: what starts, what is shown, and how it ends."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from launched import (
    HEAD,
    SOON,
    environment,
    launch,
    left,
    mpiexec,
    needs_mpi,
    processes,
    script,
)

import weft
from weft.distributed import launching

pytestmark = needs_mpi
__all__ = ["script"]


VARIABLES = """
import os, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
         "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE",
         "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS")
print(*[os.environ[n] for n in names], *sys.argv[1:], __name__)
print("to stderr", file=sys.stderr)
"""


def test_variables_words_and_lines_with_ranks(script):
    done = launch(script(VARIABLES), "--lr", "0.1", ranks=2)
    assert sorted(done.stdout.splitlines()) == [
        f"[{r}] {r} {r} 2 2 127.0.0.1 29500 0 1 default {r} 2 0 0 --lr 0.1 __main__"
        for r in range(2)
    ]
    assert sorted(done.stderr.splitlines()) == ["[0] to stderr", "[1] to stderr"]
    alone = launch(script(VARIABLES), ranks=1)
    assert alone.stdout == "0 0 1 1 127.0.0.1 29500 0 1 default 0 1 0 0 __main__\n"
    bare = launch("--no-ranks", script(VARIABLES), ranks=2)
    assert sorted(line[0] for line in bare.stdout.splitlines()) == ["0", "1"]


def test_a_module(script, tmp_path):
    script("import sys; print(__name__, sys.argv[1:])", "mine.py")
    done = launch("-m", "mine", "x", ranks=2, PYTHONPATH=str(tmp_path))
    assert sorted(done.stdout.splitlines()) == [f"[{r}] __main__ ['x']" for r in range(2)]


TORCH = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group(backend="nccl" if torch.cuda.is_available() else "gloo")
rank = int(os.environ["LOCAL_RANK"])
torch.manual_seed(0)
net = DDP(torch.nn.Linear(2, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.ones(1, 2) * (rank + 1)).sum().backward()
    opt.step()
dist.barrier()
print(rank, dist.get_world_size(), dist.get_backend(), round(net.module.weight[0, 0].item(), 4))
dist.destroy_process_group()
"""


@pytest.mark.parametrize("words", [
    ["-m", "torch.distributed.run", "--standalone", "--nnodes=1", "--nproc_per_node=2"],
    ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend=c10d",
     "--rdzv-endpoint=localhost:0", "--max-restarts=0"],
    ["-m", "torch.distributed.launch", "--use-env", "--nproc_per_node=2"],
])  # fmt: skip
def test_torchruns_words_under_weft_run(script, words):
    done = launch(*words, script(TORCH), ranks=None, command=("run",))
    weft.manual_seed(0)
    expected = weft.nn.Linear(2, 1).weight[0, 0].item() - 3 * 0.1 * 1.5
    assert sorted(done.stdout.splitlines()) == [f"[{r}] {r} 2 mpi {expected:.4f}" for r in (0, 1)]
    assert done.stderr.count("processes exchange by MPI") == 1


def test_the_elder_launcher_tells_the_local_rank(script):
    path = script("import sys; print(sys.argv[1:])")
    done = launch(
        "-m", "torch.distributed.launch", "--nproc_per_node=2", path, "x", ranks=None,
        command=("run",),
    )  # fmt: skip
    assert sorted(done.stdout.splitlines()) == [f"[{r}] ['--local-rank={r}', 'x']" for r in (0, 1)]


@pytest.mark.parametrize("words", [
    ["--nnodes=2", "x.py"], ["--max-restarts=3", "x.py"], ["-n", "none", "x.py"], ["-n", "0", "x"],
])  # fmt: skip
def test_words_that_are_refused(words):
    done = launch(*words, ranks=None, check=False)
    assert done.returncode == 2 and "expected" in done.stderr


BY_MPIEXEC = """
import weft
weft.distributed.init_process_group("mpi")
x = weft.ones(1)
weft.distributed.all_reduce(x)
print("sum", x.item())
"""


def test_mpiexec_without_weft_launch(script):
    done = mpiexec(script(BY_MPIEXEC))
    assert done.stdout.count("sum 2.0") == 2, done.stdout + done.stderr


def test_a_raising_rank_under_mpiexec_ends_all(script):
    done = mpiexec(script(BY_MPIEXEC + """
if weft.distributed.get_rank() == 1:
    raise ZeroDivisionError("here")
weft.distributed.barrier()
"""))  # fmt: skip
    assert done.returncode != 0
    assert "rank 1 raised ZeroDivisionError: all ranks end" in done.stderr
    assert done.stderr.count("ZeroDivisionError: here") == 1


def test_ranks_tell_which_is_gone_where_mpi_lets_them(script):
    if launching.find_launcher()[1] != "open":
        pytest.skip("of Open MPI's")
    done = mpiexec(script(BY_MPIEXEC + """
import os
d = weft.distributed
some = d.new_group([1, 2])
d.barrier()
if d.get_rank() == 2:
    os.kill(os.getpid(), 9)
try:
    d.barrier(group=some if d.get_rank() == 1 else None)
except RuntimeError as error:
    print(d.get_rank(), error, flush=True)
    os._exit(0)
"""), ranks=3, options=("--with-ft", "ulfm"))  # fmt: skip
    told = "expected an exchange, got the end of rank"
    for rank in (0, 1):  # the other may have ended, too
        found = re.search(rf"{rank} \[distributed\] {told} (\d, )?2 ", done.stdout)
        assert found, done.stdout + done.stderr


ENDS = {
    "raises": ("if rank == 1: raise ValueError('mine')", 1, "rank 1 raised: all ranks end"),
    "all raise": ("raise ValueError('mine')", 1, "raised: all ranks end"),
    "exits": ("if rank == 1: sys.exit(7)", 7, "rank 1 ended with status 7"),
    "says why": ("if rank == 1: sys.exit('so')", 1, "so"),
    "leaves": ("if rank == 1: os._exit(5)", 5, "rank 1 ended with status 5"),
    "is killed": ("if rank == 1: os.kill(os.getpid(), 9)", 137, "rank 1 was ended by signal 9"),
}


@pytest.mark.parametrize("end", ENDS)
def test_one_rank_ends_all(script, end):
    what, status, says = ENDS[end]
    path = script(f"{HEAD}{what}\nwhile True: dist.all_reduce(x)\n")
    done = launch(path, check=False)
    assert done.returncode == status, done.stderr
    assert says in done.stderr
    raised = end in ("raises", "all raise")
    assert done.stderr.count("Traceback") == done.stderr.count("ValueError: mine") == raised
    assert "MPI_ABORT" not in done.stderr and "prterun" not in done.stderr
    assert left(path) == []


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.2, 0.5, 1.0])
def test_a_rank_killed_at_some_moment_of_a_training(script, delay):
    path = script(HEAD + f"""
net = weft.nn.parallel.DistributedDataParallel(weft.nn.Linear(50, 50))
if rank == 1:
    import threading
    threading.Timer({delay}, lambda: os.kill(os.getpid(), 9)).start()
while True:
    net(weft.ones(8, 50)).sum().backward()
""")  # fmt: skip
    done = launch(path, check=False)
    assert "rank 1 was ended by signal 9" in done.stderr and done.returncode == 137
    assert left(path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all(script, number):
    path = script(HEAD + "print('on', flush=True)\nwhile True: dist.all_reduce(x)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "launch", "-n", "2", path], env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert "on" in process.stdout.readline()
    process.send_signal(number)
    _, said = process.communicate(timeout=SOON)
    assert process.returncode == 128 + number
    assert f"{number.name}: all ranks ended" in said
    assert left(path) == []


def test_a_killed_launcher_leaves_nothing(script):
    path = script(HEAD + "print('on', flush=True)\nwhile True: dist.all_reduce(x)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "launch", "-n", "2", path], env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert "on" in process.stdout.readline()
    process.kill()
    process.wait()
    process.stdout.close()
    assert left(path) == []


def test_exchanges_end_at_their_timeout(script):
    done = launch(script("""
import datetime, time
import weft
dist = weft.distributed
dist.init_process_group("mpi", timeout=datetime.timedelta(seconds=0.5))
if dist.get_rank() == 0:
    try:
        dist.all_reduce(weft.ones(1))
    except RuntimeError as error:
        print(error)
time.sleep(2)
import os
os._exit(0)
"""), check=False)  # fmt: skip
    assert "[all_reduce] expected all processes of the group within 0.5 s" in done.stdout


DIFFER = {
    "shapes": ("dist.all_reduce(weft.ones(2 + rank))", "float32 [2]", "float32 [3]"),
    "dtypes": ("dist.all_reduce(weft.ones(2).to([weft.float32, weft.float64][rank]))",
               "float32 [2]", "float64 [2]"),
    "calls": ("dist.all_reduce(weft.ones(2)) if rank else dist.barrier()", "barrier()",
              "all_reduce(float32 [2], op=SUM)"),
    "ops": ("dist.all_reduce(weft.ones(2), [dist.ReduceOp.SUM, dist.ReduceOp.MAX][rank])",
            "op=SUM", "op=MAX"),
    "roots": ("dist.broadcast(weft.ones(2), rank)", "src=0", "src=1"),
    "numbers": ("if rank: dist.barrier()\ndist.destroy_process_group()",
                "destroy_process_group()", "barrier()"),
}  # fmt: skip


@pytest.mark.parametrize("case", DIFFER)
def test_the_first_call_that_differs(script, case):
    call, first, second = DIFFER[case]
    path = script(f"{HEAD}dist.all_reduce(x)\n{call}\n")
    done = launch(path, check=False, TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert done.returncode == 1
    assert "Detected mismatch between collectives on ranks" in done.stderr
    lines = [line for line in done.stderr.splitlines() if "  rank " in line]
    assert "rank 0: " in lines[0] and first in lines[0] and f"{path}:" in lines[0]
    assert "rank 1: " in lines[1] and second in lines[1] and "call 2 of the group" in done.stderr


UNLIKE = {
    "fewer": ("dist.send(x[:3], 1) if rank == 0 else dist.recv(x[:5], 0)",
              "recv(float32 [5])", "send(float32 [3])"),
    "another dtype": ("dist.send(x[:3].int(), 1) if rank == 0 else dist.recv(x[:3])",
                      "recv(float32 [3])", "send(int32 [3])"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNLIKE)
def test_a_message_unlike_its_tensor(script, case):
    call, first, second = UNLIKE[case]
    path = script(f"{HEAD}for k in (1, 2):\n"
                  "    dist.send(x[:k], 1) if rank == 0 else dist.recv(x[:k], 0)\n"
                  f"{call}\ndist.barrier()\n")  # fmt: skip
    done = launch(path, check=False, TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if "  rank " in line]
    assert f"rank 1: {first} at {path}:" in lines[0]
    assert f"rank 0: {second} at {path}:" in lines[1]


def test_parts_unlike_what_is_expected(script):
    path = script(HEAD + "out = [[2, 2], [1, 3]][rank]\n"
                  "dist.all_to_all_single(x[:4].clone(), x[:4], [2, 2], out)\n")  # fmt: skip
    told = launch(path, check=False, TORCH_DISTRIBUTED_DEBUG="DETAIL").stderr
    assert "what rank 1 sends to rank 0 to be what that expects, 2 elements, got 1" in told
    bare = launch(path, check=False).stderr
    assert "RuntimeError: [distributed]" in bare and "TORCH_DISTRIBUTED_DEBUG=DETAIL" in bare


@pytest.mark.parametrize("how", ["sys.exit(0)", "dist.destroy_process_group(); sys.exit()"])
def test_a_rank_that_leaves_early_is_named(script, how):
    """The others waited until the timeout, of half an hour."""
    path = script(f"{HEAD}dist.barrier()\nif rank == 1:\n    {how}\n"
                  "dist.all_reduce(x)\n")  # fmt: skip
    done = launch(path, check=False, timeout=SOON)
    assert done.returncode == 1
    assert "[all_reduce] expected all processes of the group, got the end of rank 1" in done.stderr


def test_what_a_rank_has_sent_before_it_left_arrives(script):
    """A rank that has no more to do may end; who waits for a third rank is left alone."""
    done = launch(script(f"""{HEAD}
parts = [weft.ones(2) for _ in range(3)] if rank == 0 else None
if rank == 1:
    dist.send(weft.ones(100), 0)
if rank == 2:
    time.sleep(4)
dist.gather(x[:2], parts, dst=0)
if rank == 0:
    time.sleep(1)
    dist.recv(y := weft.zeros(100), 1)
    print("sum", int(y.sum()))
"""), ranks=3)  # fmt: skip
    assert "[0] sum 100" in done.stdout


def test_rank_0_reads_the_launchs_input_to_its_end(script):
    path = script("import os, sys\nprint(repr(sys.stdin.read()), flush=True)\n")
    done = subprocess.run(
        [sys.executable, "-m", "weft", "launch", "-n", "2", path], input="a\nb", text=True,
        capture_output=True, timeout=SOON, env=environment(),
    )  # fmt: skip
    assert sorted(done.stdout.splitlines()) == ["[0] 'a\\nb'", "[1] ''"], done.stderr


def test_ranks_by_hand_are_refused(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py"])
    for how in ({"rank": 0, "world_size": 2}, {}):
        with monkeypatch.context() as changed:
            if not how:
                changed.setenv("RANK", "1")
                changed.setenv("WORLD_SIZE", "2")
            with pytest.raises(RuntimeError, match="weft launch -n 2 train.py"):
                weft.distributed.init_process_group("gloo", init_method="env://", **how)
    assert not weft.distributed.is_initialized()


def test_one_process_needs_no_mpi():
    code = (
        "import sys, weft; d = weft.distributed\n"
        "sys.modules['mpi4py'] = None\n"
        "d.init_process_group('gloo', rank=0, world_size=1, store=d.HashStore())\n"
        "net = weft.nn.parallel.DistributedDataParallel(weft.nn.Linear(1, 1))\n"
        "net(weft.ones(1)).sum().backward(); d.all_reduce(weft.ones(1)); d.barrier()\n"
        "d.destroy_process_group(); d.init_process_group('mpi'); print(d.get_backend())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "mpi\n"


def test_a_launch_without_mpi4py_says_what_to_install(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(RuntimeError, match=r"pip install 'weft\[mpi\]'"):
        weft.distributed.init_process_group("mpi")
    assert not weft.distributed.is_initialized()


def test_other_sizes_than_the_launchs_are_refused(script):
    done = launch(script("""
import weft
for how in ({"world_size": 3}, {"rank": 5}):
    try:
        weft.distributed.init_process_group("mpi", **how)
    except ValueError as error:
        print(error)
"""))  # fmt: skip
    assert done.stdout.count("expected world_size 2, as the MPI launch has it, got 3") == 2
    assert done.stdout.count("as the MPI launch has it, got 5") == 2


#: Words of each mpiexec, with other machines too.
COMMANDS = {
    ("open", ""): "mpiexec -n 3 --bind-to none --oversubscribe --output tag --stdin none",
    ("open", "a,b"): "mpiexec -n 3 --bind-to none --oversubscribe --output tag --host a:2,b:1 "
    "-x WEFT_X",
    ("hydra", ""): "mpiexec -n 3 -prepend-rank",
    ("hydra", "a,b"): "mpiexec -n 3 -prepend-rank -ppn 2 -hosts a,b -genvlist WEFT_X",
    ("", "a,b"): "mpiexec -n 3 -host a,b",
}


@pytest.mark.parametrize(("kind", "hosts"), COMMANDS)
def test_the_words_of_mpiexec(kind, hosts):
    got = launching.command(kind, "mpiexec", 3, [h for h in hosts.split(",") if h],
                            {"WEFT_X": "1", "HOME": "/"})  # fmt: skip
    words = [word for word in got if word != "--allow-run-as-root"]
    assert " ".join(words) == COMMANDS[kind, hosts]


PIECES = [
    ([b"[1,0]<stdout>: a\n[1,1]<stdout>: b\n"], b"[0] a\n[1] b\n"),
    ([b"[1,0]<stdout>: a", b"b\n[1,1]<std", b"out>: c\n"], b"[0] ab\n[1] c\n"),
    ([b"[1,0]<stdout>: half[1,1]<stdout>: b\n"], b"[0] half\n[1] b\n"),
    ([b"[job@1,3]<stdout>: x [1, 2] <y>\n"], b"[3] x [1, 2] <y>\n"),
    ([b"[1,0]<stdout>: \r10%", b"\r20%"], b"[0] \r[0] 10%\r[0] 20%\n"),
    ([b"[1,0]<stdout>: ", b"\n"], b"[0] \n"),
    ([b"mpiexec itself\n[1,0]<stdout>: a\n"], b"[0] a\n"),
]


@pytest.mark.parametrize(("pieces", "expected"), PIECES)
def test_output_by_pieces(pieces, expected):
    relay = launching.Relay(True, True)
    written = bytearray()
    relay._write = lambda fd, data: written.extend(data)
    rank, waiting = -1, b""
    for piece in pieces:
        rank, waiting = relay._cut(waiting + piece, rank, 1)
    relay._take(1, rank, waiting)
    relay.end(0)
    assert bytes(written) == expected


STOPPED = """
import os, signal
print("before", flush=True)
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGSTOP)
print("after", flush=True)
"""


def test_a_stopped_rank_is_told_and_waited_for(script):
    """It is not ended: slow is not a fault."""
    path = script(STOPPED)
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "launch", "-n", "2", path],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(WEFT_HEARTBEAT="0.2"),
    )  # fmt: skip
    told = []

    def has_it_go_on():  # also if it was slow to start, and was told of before it stopped
        while process.poll() is None:
            for pid in processes(path):
                if _state(pid) == "T":
                    os.kill(pid, signal.SIGCONT)
            time.sleep(0.1)

    for line in process.stderr:
        told.append(line)
        if "rank 1 gives no sign of life" in line:
            threading.Thread(target=has_it_go_on, daemon=True).start()
    assert process.wait() == 0, told
    lines = sorted(process.stdout.read().splitlines())
    assert lines == ["[0] after", "[0] before", "[1] after", "[1] before"]
    assert any("rank 1 gives no sign of life" in line for line in told)
    assert not any("alive" in line for line in told)


def _state(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_signs_of_life_are_no_part_of_what_a_rank_says():
    """Also when they come in pieces, or within a line."""
    relay = launching.Relay(is_tagged=True, show_ranks=True)
    shown = []
    relay._write = lambda fd, data: shown.append(data)
    sign = launching.SIGN
    for piece in (b"50%|#", sign[:3], sign[3:], b"##\n", sign + b"x\n" + sign, b"\x05y\n"):
        relay._take(2, 1, piece)
    assert b"".join(shown) == b"[1] 50%|###\n[1] x\n[1] \x05y\n"
    assert list(relay._signs) == [1]


def test_the_example_learns_in_two_processes_what_it_learns_in_one(tmp_path):
    """About: Adam's first steps go by the signs of gradients, those of zeros by how they round."""
    example = Path(__file__).parents[2] / "examples" / "listops.py"
    words = (example, "--trees", 2400, "--dim", 32, "--out", tmp_path / "loss.png")
    losses = []
    for ranks in (1, 2):
        done = launch(*words, ranks=ranks)
        assert done.stdout.count("test accuracy") == 1
        losses.append(float(re.findall(r"loss=([\d.]+)", done.stderr)[-1]))
    assert abs(losses[0] - losses[1]) < 0.05 and max(losses) < 1.9


def test_what_mpiexec_says_behind_an_unfinished_line_is_its_own():
    """It was shown as the rank's, and how that ended was not told: seen once, on a busy machine."""
    rule = b"-" * 74 + b"\n"
    said = (
        b"prterun has exited due to process rank 1 with PID 0 on node here calling\n"
        b'"abort". This may have caused other processes in the application to be\n'
        b"terminated by signals sent by prterun (as reported here).\n"
    )
    written = bytearray()
    relay = launching.Relay(is_tagged=True, show_ranks=True)
    relay._write = lambda fd, data: written.extend(data)
    rank, waiting = relay._cut(b"[prterun-here-1@1,1]<stderr>: ", -1, 2)
    rank, waiting = relay._cut(waiting + rule + said + rule, rank, 2)
    relay._take(2, rank, waiting)
    assert relay.end(7) == "rank 1 ended with status 7: all ranks end"
    assert not written

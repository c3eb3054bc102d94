"""Folders of a launch, and what killed processes leave in them."""

import os
import subprocess
import sys

import pytest
from launched import HEAD, environment, launch, left, needs_mpi

from weft.distributed import folders

needs_shared = pytest.mark.skipif(folders.SHARED is None, reason="the system has no /dev/shm")

SEGMENTS = f"""{HEAD}
folder = os.environ["OMPI_MCA_btl_sm_backing_directory"]
dist.all_reduce(x)
dist.barrier()
names = sorted(name.split(".")[0] for name in os.listdir(folder))
if rank == 0: print(folder, *names, flush=True)
dist.barrier()
"""


@needs_mpi
@needs_shared
def test_killed_ranks_leave_no_shared_memory(tmp_path):
    """Each left 16 MB of the machine's, for good."""
    path = tmp_path / "train.py"
    path.write_text(f"{SEGMENTS}if rank == 1: os.kill(os.getpid(), 9)\ndist.barrier()\n")
    done = launch("--no-ranks", path, check=False)
    folder, *names = done.stdout.split()
    assert folder.startswith(folders.SHARED), done.stderr
    assert names == ["input", "ompi", "sm_segment", "sm_segment"]  # Open MPI's session too
    assert done.returncode == 137 and not os.path.exists(folder)
    path.write_text(SEGMENTS)
    done = launch("--no-ranks", path, OMPI_MCA_btl_sm_backing_directory=str(tmp_path))
    assert done.stdout.split()[0] == str(tmp_path)


@needs_mpi
@needs_shared
def test_the_next_launch_removes_what_a_killed_one_left(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SEGMENTS + "while True: dist.all_reduce(x)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "launch", "--no-ranks", "-n", "2", path],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    folder = process.stdout.readline().split()[0]
    process.kill()
    process.wait()
    process.stdout.close()
    assert left(path) == []
    path.write_text("pass")
    launch(path, ranks=1)
    assert not os.path.exists(folder)


def test_folders_of_processes_that_are_gone(tmp_path):
    gone = tmp_path / "mine-gone"
    (gone / "below").mkdir(parents=True)
    (tmp_path / "another").mkdir()
    with folders.own_folder("mine-", str(tmp_path)) as first:
        assert not gone.exists()
        with folders.own_folder("mine-", str(tmp_path)) as second:
            assert os.path.isdir(first) and os.path.isdir(second) and first != second
        assert os.path.isdir(first) and not os.path.exists(second)
    assert [path.name for path in tmp_path.iterdir()] == ["another"]

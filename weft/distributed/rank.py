"""One rank of a launch: `python -m weft.distributed.rank [-m MODULE | script.py] ARGS...`.

It sets the variables that programs read (RANK, LOCAL_RANK, WORLD_SIZE, ...), runs the program as
Python would, and has all ranks end when it raises or exits with another status than 0.
"""

from __future__ import annotations

import atexit
import os
import runpy
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from weft.distributed import leaving, over_mpi
from weft.distributed.launching import BEGIN, END, HEARTBEAT, SIGN
from weft.distributed.places import take_input

__all__ = ["main", "run_program"]

_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS")
_LOCAL_SIZES = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE")
#: The variable that has the program get `--local-rank`, as `torch.distributed.launch` gives it.
LOCAL_RANK_WORD = "WEFT_LOCAL_RANK_WORD"


def _first(names: tuple[str, ...], otherwise: str) -> str:
    return next((os.environ[name] for name in names if name in os.environ), otherwise)


def set_variables() -> None:
    """RANK and the others, as torchrun has them."""
    rank, size = _first(over_mpi._RANKS, "0"), _first(_SIZES, "1")
    local, local_size = str(over_mpi.local_rank()), _first(_LOCAL_SIZES, size)
    each = max(1, int(local_size))
    os.environ.update(
        RANK=rank, WORLD_SIZE=size, LOCAL_RANK=local, LOCAL_WORLD_SIZE=local_size,
        GROUP_RANK=str(int(rank) // each), GROUP_WORLD_SIZE=str(-(-int(size) // each)),
        ROLE_NAME="default", ROLE_RANK=rank, ROLE_WORLD_SIZE=size,
        TORCHELASTIC_RESTART_COUNT="0", TORCHELASTIC_MAX_RESTARTS="0",
        TORCHELASTIC_USE_AGENT_STORE="False",
    )  # fmt: skip


def run_program(program: Callable[[], Any]) -> None:
    """Runs it; what it raises is written once, and ends all ranks."""
    os.environ[over_mpi.IN_LAUNCH] = "1"
    try:
        program()
    except SystemExit as error:
        code = error.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
        if code not in (None, 0):
            over_mpi.end_all(code if isinstance(code, int) else 1)
        raise
    except BaseException as error:
        _tell(error)
        over_mpi.end_all(130 if isinstance(error, KeyboardInterrupt) else 1)


def give_signs() -> None:
    """Tells the launch that this rank runs, until it ends (Note [Signs of life])."""
    seconds = float(os.environ.get(HEARTBEAT, "0"))

    def run() -> None:
        while True:
            time.sleep(seconds)
            try:
                os.write(2, SIGN)
            except OSError:
                return  # nobody reads

    if seconds > 0:
        os.write(2, SIGN)  # from now on its silence is noticed
        threading.Thread(target=run, name="weft-signs", daemon=True).start()


def _tell(error: BaseException) -> None:
    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))
    sys.stdout.flush()
    sys.stderr.write(f"{BEGIN}\n{text.rstrip()}\n{END}\n")
    sys.stderr.flush()


#: Where what starts a program's function lies.
_HERE = os.path.dirname(__file__) + os.sep


def _is_ours(filename: str) -> bool:
    is_house = filename.startswith(_HERE) or "<frozen" in filename
    return is_house or "runpy" in os.path.basename(filename)


def main() -> None:
    """Runs what the command line names."""
    set_variables()
    give_signs()
    atexit.register(leaving.leave, int(os.environ["RANK"]))  # the first: the last that is called
    if os.environ["RANK"] == "0":
        take_input()
    words = sys.argv[1:]
    local = [f"--local-rank={os.environ['LOCAL_RANK']}"] * (LOCAL_RANK_WORD in os.environ)
    if words[:1] == ["--spawned"]:
        from weft.distributed.spawned import run_rank

        os.environ[over_mpi.IN_LAUNCH] = "1"
        run_rank(words[1])
    elif words[:1] == ["--of-ray"]:
        from weft.distributed.ray.worker import train

        run_program(train)
    elif words[:1] == ["-m"]:
        module, rest = words[1], words[2:]
        sys.argv = [module, *local, *rest]
        sys.path[0] = os.getcwd()
        run_program(lambda: runpy.run_module(module, run_name="__main__", alter_sys=True))
    else:
        script, rest = words[0], words[1:]
        sys.argv = [script, *local, *rest]
        sys.path[0] = os.path.dirname(os.path.abspath(script))
        run_program(lambda: runpy.run_path(script, run_name="__main__"))


if __name__ == "__main__":
    main()

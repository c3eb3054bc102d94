"""`python -m torch.distributed.run` under `weft run`, and the words of `weft launch`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from weft.distributed.launching import launch
from weft.distributed.rank import LOCAL_RANK_WORD

__all__ = ["add_words", "get_args_parser", "main", "run"]


def add_words(parser: argparse.ArgumentParser) -> None:
    """The words of `weft launch` and of torchrun."""
    add = parser.add_argument
    add(
        "-n",
        "--nproc-per-node",
        "--nproc_per_node",
        dest="nproc_per_node",
        default="1",
        metavar="N",
        help="processes; auto, cpu: as many as cores; with --hosts: over all of them",
    )
    add("--hosts", default="", metavar="A,B", help="machines that ssh reaches, with the same paths")
    add("--no-ranks", action="store_true", help="do not write the rank before each line of output")
    add("--nnodes", default="1", help="1; several machines are --hosts")
    add("--node-rank", "--node_rank", type=int, default=0, help="0, for the same reason")
    add("--max-restarts", "--max_restarts", type=int, default=0, help="0: nothing is restarted")
    add("--standalone", action="store_true", help="as torchrun has it: there is no other way here")
    for name, what in _MEETING.items():
        add(f"--{name}", f"--{name.replace('-', '_')}", default=None, help=what)
    add("-m", "--module", action="store_true", help="the program is a module")
    add("program", metavar="PROGRAM", help="script.py, or a module's name with -m")
    add("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="the program's own words")


#: Options of torchrun about where processes meet, which mpiexec decides.
_MEETING = {
    "master-addr": "what the processes get as MASTER_ADDR",
    "master-port": "what the processes get as MASTER_PORT",
    "rdzv-backend": "as torchrun has it: mpiexec has the processes meet",
    "rdzv-endpoint": "the same",
    "rdzv-id": "the same",
}


def get_args_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="torchrun", description="Runs a program in several processes, which MPI connects."
    )
    add_words(parser)
    return parser


def _count(text: str, parser: argparse.ArgumentParser) -> int:
    if text in ("auto", "cpu"):
        return len(os.sched_getaffinity(0))
    if not text.isdigit() or int(text) < 1:
        parser.error(f"expected a number of processes, auto or cpu, got {text!r}")
    return int(text)


def run(args: argparse.Namespace, parser: argparse.ArgumentParser, local_rank: bool = False) -> int:
    """Launches what was parsed; the exit status.

    Args:
        local_rank: give the program a word `--local-rank=N`.
    """
    if args.nnodes not in ("1", "1:1") or args.node_rank:
        parser.error("expected --nnodes=1: one launch starts all, on the machines of --hosts a,b")
    if args.max_restarts:
        parser.error("expected --max-restarts=0: nothing is restarted; load a checkpoint instead")
    more = {LOCAL_RANK_WORD: "1"} if local_rank else {}
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if (value := getattr(args, name.lower())) is not None:
            more[name] = value
    words = [*(["-m"] if args.module else []), args.program, *args.arguments]
    hosts = [host for host in args.hosts.split(",") if host]
    count = _count(args.nproc_per_node, parser)
    try:
        return launch(words, count, hosts, more, not args.no_ranks)
    except RuntimeError as error:
        parser.exit(1, f"{error}\n")


def main(args: Sequence[str] | None = None) -> None:
    """What `torchrun` does with its words; exits where processes failed."""
    parser = get_args_parser()
    status = run(parser.parse_args(args), parser)
    if status != 0:
        sys.exit(status)


if __name__ == "__main__":
    main()

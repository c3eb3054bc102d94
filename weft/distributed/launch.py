"""`python -m torch.distributed.launch`: torchrun's elder, which tells programs `--local-rank`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from weft.distributed.run import get_args_parser, run

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> None:
    """Runs what the words name, each process with `--local-rank=N` unless `--use-env` is given."""
    parser = get_args_parser()
    parser.add_argument(
        "--use-env", "--use_env", action="store_true", help="LOCAL_RANK alone tells the rank"
    )
    parsed = parser.parse_args(args)
    status = run(parsed, parser, local_rank=not parsed.use_env)
    if status != 0:
        sys.exit(status)


if __name__ == "__main__":
    main()

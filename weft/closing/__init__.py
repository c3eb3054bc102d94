"""From functions of Python to packages, which need none of it: see `close`."""

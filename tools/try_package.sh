#!/bin/sh
# try_package.sh PYTHON: what a stranger does with weft installed into the environment of PYTHON, from a
# folder that is not the source's, without a compiler, in the poorest of surroundings.
set -eu
python=$(realpath -s "$1")
weft=$(dirname "$python")/weft
examples=$(realpath "$(dirname "$0")/../examples")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# bare NAME=VALUE... COMMAND...: nothing else in the environment, no home that could be written or made,
# and files and a terminal of ASCII alone.
bare() {
    env -i PATH=/nonexistent HOME=/proc/nobody LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 \
        PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=error "$@"
}

cat > first.py <<'PROGRAM'
import pathlib
import weft
from weft.utils.data import DataLoader

home = pathlib.Path(weft.__file__).parent
assert "site-packages" in str(home), home
assert all((home / name).exists() for name in ("py.typed", "_C.pyi")), home
x = weft.ones(2, 2, requires_grad=True)
(x @ x).sum().backward()
assert x.grad.tolist() == [[4, 4], [4, 4]]


def halved(x):
    while x.abs().max() > 1:
        x = x / 2
    return x


weft.jit.save(weft.jit.script(halved), "halved.weft")
found = [weft.compile(halved)(x.grad), weft.jit.load("halved.weft")(x.grad)]
for y in found + weft.autobatch(halved)([x.grad, x.grad]):
    assert y.tolist() == [[1, 1], [1, 1]], y
assert weft.linalg.solve(weft.eye(3) * 2, weft.ones(3)).tolist() == [0.5, 0.5, 0.5]
a = weft.randn(200, 300)
assert weft.allclose(a @ a.T, (a[:, None] * a).sum(-1), atol=1e-3)
if __name__ == "__main__":
    for batch in DataLoader(list(weft.arange(40000.0).split(10000)), num_workers=1, batch_size=2):
        assert batch.shape == (2, 10000)
PROGRAM

# One core and half a gigabyte.
cat > poor.py <<'PROGRAM'
import os
import resource
import runpy

os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
runpy.run_path("first.py", run_name="__main__")
PROGRAM

bare "$python" first.py
bare "$python" poor.py
for cpu in baseline avx2; do bare WEFT_CPU=$cpu "$python" first.py; done
# Neither shared memory nor places for temporary files but this folder.
if unshare -rm true 2> /dev/null; then
    unshare -rm sh -c 'for place in /dev/shm /tmp /var/tmp; do
        case $PWD/ in $place/*) ;; *) mount -t tmpfs -o ro none $place ;; esac
    done; exec "$@"' sh env -i PATH=/nonexistent HOME=/proc/nobody "$python" first.py
else
    echo "unshare -rm is not allowed here: not tried without /dev/shm"
fi
bare "$weft" --help > /dev/null
bare "$python" "$examples/listops.py" --trees 2000 > /dev/null 2> shown || { cat shown; exit 1; }
echo "weft $(bare "$python" -c 'import weft; print(weft.__version__)'): $python"

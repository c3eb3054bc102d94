"""Linear algebra: one matrix of several sizes, and batches of small ones, float32 and float64."""

import harness

SIZES = ((1,), (3,), (16,), (64,), (200,), (600,))
BATCHES = ((1000, 3), (64, 32))

#: Steps from a, symmetric positive-definite s, and b, of a's shape.
CALLS = {
    "inv": lambda L, a, s, b: lambda: L.inv(a),
    "solve": lambda L, a, s, b: lambda: L.solve(a, b),
    "solve, one column": lambda L, a, s, b: lambda: L.solve(a, b[..., :1]),
    "det": lambda L, a, s, b: lambda: L.det(a),
    "slogdet": lambda L, a, s, b: lambda: L.slogdet(a),
    "lu_factor": lambda L, a, s, b: lambda: L.lu_factor(a),
    "lu_solve": lambda L, a, s, b: (lambda lu: lambda: L.lu_solve(*lu, b))(L.lu_factor(a)),
    "solve_triangular": lambda L, a, s, b: lambda: L.solve_triangular(s, b, upper=True),
    "cholesky": lambda L, a, s, b: lambda: L.cholesky(s),
    "qr": lambda L, a, s, b: lambda: L.qr(a),
    "eigh": lambda L, a, s, b: lambda: L.eigh(s),
    "eigvalsh": lambda L, a, s, b: lambda: L.eigvalsh(s),
    "svd": lambda L, a, s, b: lambda: L.svd(a),
    "svdvals": lambda L, a, s, b: lambda: L.svdvals(a),
    "eig": lambda L, a, s, b: lambda: L.eig(a),
    "eigvals": lambda L, a, s, b: lambda: L.eigvals(a),
}


def program(call, sizes, dtype):
    def make(torch):
        a, b = (torch.randn(*sizes, sizes[-1], dtype=getattr(torch, dtype)) for _ in range(2))
        s = a @ a.mT + sizes[-1] * torch.eye(sizes[-1], dtype=a.dtype)
        step = call(torch.linalg, a, s, b)

        def run():
            step()

        return run

    return make


def name(call, sizes, dtype):
    *batch, n = sizes
    return f"linalg.{call} {''.join(f'{k} of ' for k in batch)}{n}x{n} {dtype}"


ROWS = [
    harness.Row(name(call, sizes, dtype), program(make, sizes, dtype), ratio=0.95)
    for call, make in CALLS.items()
    for dtype in ("float32", "float64")
    for sizes in SIZES + BATCHES
]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)

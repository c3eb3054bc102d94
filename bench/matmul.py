"""A large product, where only the BLAS counts."""

import harness

SIZE = 1024


def product(torch):
    a, b = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
    return lambda: a @ b


ROWS = [harness.Row("matmul 1024 x 1024 x 1024, float32", product, ratio=1.1)]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)

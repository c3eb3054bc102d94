"""Causal attention over a long sequence: 4 heads of 64, 2048 tokens, forward and backward."""

import harness

HEADS, LENGTH, WIDTH = 4, 2048, 64


def attention(torch):
    q, k, v = (torch.randn(1, HEADS, LENGTH, WIDTH, requires_grad=True) for _ in range(3))
    attend = torch.nn.functional.scaled_dot_product_attention

    def step():
        for t in (q, k, v):
            t.grad = None
        attend(q, k, v, is_causal=True).sum().backward()

    return step


ROWS = [
    harness.Row("attention 4 heads d=64, T=2048, causal, forward + backward", attention, ratio=1.0)
]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)

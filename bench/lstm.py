"""An LSTM layer 64 -> 128 over 50 steps of 32 sequences, forward and backward."""

import harness


def lstm(torch):
    layer = torch.nn.LSTM(64, 128)
    x = torch.randn(50, 32, 64, requires_grad=True)

    def step():
        layer.zero_grad()
        x.grad = None
        layer(x)[0].sum().backward()

    return step


ROWS = [harness.Row("LSTM 64 -> 128, batch 32, 50 steps, forward + backward", lstm, ratio=1.4)]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)

"""Row-wise reductions with their gradients."""

import harness


def norm_softmax(torch):
    F = torch.nn.functional
    x = torch.randn(512, 1024, requires_grad=True)
    weight, bias = torch.ones(1024, requires_grad=True), torch.zeros(1024, requires_grad=True)
    gradient = torch.randn(512, 1024)

    def step():
        x.grad = weight.grad = bias.grad = None
        y = F.softmax(F.layer_norm(x, (1024,), weight, bias), dim=-1)
        y.backward(gradient)
        return x.grad

    return step


ROWS = [harness.Row("layer_norm + softmax 512 x 1024, forward + backward", norm_softmax, ratio=1.4)]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)

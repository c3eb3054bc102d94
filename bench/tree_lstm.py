"""A binary Tree-LSTM (Tai et al. 2015) as one writes it: recursion, one node at a time."""

import random

import harness

DIM, CLASSES, WORDS = 128, 5, 100


def random_tree(rng, leaves):
    """A binary tree over words, split at a uniformly random place at every node."""
    if leaves == 1:
        return rng.randrange(WORDS)
    left = rng.randrange(1, leaves)
    return random_tree(rng, left), random_tree(rng, leaves - left)


def model_of(torch):
    nn = torch.nn

    class TreeLSTM(nn.Module):
        def __init__(self):
            super().__init__()
            self.leaf = nn.Embedding(WORDS, 2 * DIM)
            self.node = nn.Linear(2 * DIM, 5 * DIM)
            self.out = nn.Linear(DIM, CLASSES)

        def state(self, tree):
            if not isinstance(tree, tuple):
                return self.leaf(torch.tensor([tree])).chunk(2, dim=1)
            (h_l, c_l), (h_r, c_r) = self.state(tree[0]), self.state(tree[1])
            i, f_l, f_r, o, u = self.node(torch.cat([h_l, h_r], dim=1)).chunk(5, dim=1)
            c = (
                torch.sigmoid(i) * torch.tanh(u)
                + torch.sigmoid(f_l) * c_l
                + torch.sigmoid(f_r) * c_r
            )
            return torch.sigmoid(o) * torch.tanh(c), c

        def forward(self, tree):
            return self.out(self.state(tree)[0])

    return TreeLSTM()


def training_step(torch):
    rng = random.Random(harness.SEED)
    trees = [random_tree(rng, rng.randint(10, 40)) for _ in range(32)]
    labels = [torch.tensor([rng.randrange(CLASSES)]) for _ in trees]
    model = model_of(torch)

    def step():
        model.zero_grad()
        loss = 0.0
        for tree, label in zip(trees, labels):
            loss = loss + torch.nn.functional.cross_entropy(model(tree), label)
        loss.backward()
        return loss

    return step


ROWS = [harness.Row("Tree-LSTM d=128, 32 trees of 10-40 leaves, plain", training_step, ratio=3)]

if __name__ == "__main__":
    harness.main(ROWS, __doc__)

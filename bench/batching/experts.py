"""A mixture of experts, the best one for each example (Fedus et al. 2021, arXiv:2101.03961)."""

from batching.structures import generator, values, whole

DIM, LAYERS, EXPERTS, CLASSES = 128, 4, 8, 10


def make(lib, dim=DIM):
    nn = lib.nn

    def expert():
        return nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.lib = lib
            self.gates = nn.ModuleList([nn.Linear(dim, EXPERTS) for _ in range(LAYERS)])
            self.experts = nn.ModuleList(
                [nn.ModuleList([expert() for _ in range(EXPERTS)]) for _ in range(LAYERS)]
            )
            self.out = nn.Linear(dim, CLASSES)

    return Mixture()


def examples(lib, seed, n, dim=DIM):
    """Pairs of a row of shape (1, dim) and a label of shape (1,)."""
    rng = generator(seed)
    return [
        (values(lib, rng, 1, dim), lib.tensor([whole(rng, 0, CLASSES - 1)])) for _ in range(n)
    ]  # fmt: skip


def one(model, example):
    x, label = example
    for gate, experts in zip(model.gates, model.experts):
        weights = gate(x).softmax(dim=1)
        best = int(weights.argmax())
        x = x + weights[0, best] * experts[best](x)
    return model.lib.nn.functional.cross_entropy(model.out(x), label)


def by_hand(model, examples):
    """The rows of each expert together, then back to their places."""
    lib = model.lib
    x, labels = (lib.cat(parts) for parts in zip(*examples))
    for gate, experts in zip(model.gates, model.experts):
        weight, best = gate(x).softmax(dim=1).max(dim=1)
        chosen = best.tolist()
        order = sorted(range(len(chosen)), key=chosen.__getitem__)
        sizes = [chosen.count(e) for e in range(EXPERTS)]
        parts = zip(experts, x[lib.tensor(order)].split(sizes))
        mixed = lib.cat([expert(part) for expert, part in parts if len(part)])
        back = lib.tensor(sorted(range(len(chosen)), key=order.__getitem__))
        x = x + weight.unsqueeze(1) * mixed[back]
    return lib.nn.functional.cross_entropy(model.out(x), labels, reduction="none")

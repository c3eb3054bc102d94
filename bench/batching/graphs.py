"""Message passing on graphs of unlike size (Gilmer et al. 2017, arXiv:1704.01212)."""

from batching.structures import generator, values, whole

DIM, ROUNDS, CLASSES = 128, 4, 2


def make(lib, dim=DIM):
    nn = lib.nn

    class MessagePassing(nn.Module):
        def __init__(self):
            super().__init__()
            self.lib = lib
            self.message, self.update = nn.Linear(2 * dim, dim), nn.GRUCell(dim, dim)
            self.out = nn.Linear(dim, CLASSES)

        def nodes(self, h, source, target):
            for _ in range(ROUNDS):
                ends = lib.cat([h[source], h[target]], dim=1)
                messages = lib.relu(self.message(ends))
                h = self.update(lib.zeros_like(h).index_add(0, target, messages), h)
            return h

    return MessagePassing()


def examples(lib, seed, n, dim=DIM):
    """Features (nodes, dim), sources and targets of the edges (edges,), and a label (1,)."""
    rng = generator(seed)
    graphs = []
    for _ in range(n):
        nodes = whole(rng, 5, 30)
        ends = rng.integers(0, nodes, (2, whole(rng, nodes, 3 * nodes)))
        source, target = lib.tensor(ends.tolist()).unbind()
        label = lib.tensor([whole(rng, 0, CLASSES - 1)])
        graphs.append((values(lib, rng, nodes, dim), source, target, label))
    return graphs


def one(model, example):
    h, source, target, label = example
    mean = model.nodes(h, source, target).mean(dim=0, keepdim=True)
    return model.lib.nn.functional.cross_entropy(model.out(mean), label)


def by_hand(model, examples):
    """One large graph of all: the nodes after one another, the edges moved along."""
    lib, first, owner, sizes = model.lib, 0, [], []
    sources, targets = [], []
    for i, (h, source, target, _) in enumerate(examples):
        sources.append(source + first)
        targets.append(target + first)
        first += len(h)
        owner += [i] * len(h)
        sizes.append([len(h)])
    h = lib.cat([example[0] for example in examples])
    h = model.nodes(h, lib.cat(sources), lib.cat(targets))
    sums = h.new_zeros(len(examples), h.shape[1]).index_add(0, lib.tensor(owner), h)
    labels = lib.cat([example[3] for example in examples])
    scores = model.out(sums / lib.tensor(sizes))
    return lib.nn.functional.cross_entropy(scores, labels, reduction="none")

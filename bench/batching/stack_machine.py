"""A shift-reduce machine with a tracking LSTM: SPINN (Bowman et al. 2016, arXiv:1603.06021)."""

from batching.structures import binary_tree, generator, whole

DIM, TRACK, CLASSES, WORDS = 128, 64, 3, 100
SHIFT, REDUCE = 0, 1


def make(lib, dim=DIM):
    nn = lib.nn

    class StackMachine(nn.Module):
        def __init__(self):
            super().__init__()
            self.lib, self.dim = lib, dim
            self.leaf = nn.Embedding(WORDS, 2 * dim)
            self.track = nn.LSTMCell(3 * dim, TRACK)
            self.node = nn.Linear(2 * dim + TRACK, 5 * dim)
            self.move, self.out = nn.Linear(TRACK, 2), nn.Linear(dim, CLASSES)

        def merge(self, left, right, tracked):
            """The state (h and c side by side) over two, steered by the tracker."""
            (h_l, c_l), (h_r, c_r) = left.chunk(2, dim=1), right.chunk(2, dim=1)
            gates = self.node(lib.cat([h_l, h_r, tracked], dim=1))
            i, f_l, f_r, o, u = gates.chunk(5, dim=1)
            c = i.sigmoid() * u.tanh() + f_l.sigmoid() * c_l + f_r.sigmoid() * c_r
            return lib.cat([o.sigmoid() * c.tanh(), c], dim=1)

    return StackMachine()


def examples(lib, seed, n, dim=DIM):
    """Triples of words, moves (0 shift, 1 reduce), and a label of shape (1,)."""
    rng = generator(seed)

    def moves(tree):
        return [*moves(tree[0]), *moves(tree[1]), REDUCE] if isinstance(tree, tuple) else [SHIFT]

    found = []
    for _ in range(n):
        size = whole(rng, 10, 40)
        tree = binary_tree(rng, size, lambda: 0)
        words = [whole(rng, 0, WORDS - 1) for _ in range(size)]
        found.append((words, moves(tree), lib.tensor([whole(rng, 0, CLASSES - 1)])))
    return found


def one(model, example):
    lib, dim = model.lib, model.dim
    cross_entropy = lib.nn.functional.cross_entropy
    words, moves, label = example
    buffer = list(model.leaf(lib.tensor(words)).split(1))[::-1]
    nothing = lib.zeros(1, 2 * dim)
    stack = [nothing, nothing]
    tracked, memory, loss = lib.zeros(1, TRACK), lib.zeros(1, TRACK), 0.0
    for move in moves:
        seen = [buffer[-1] if buffer else nothing, stack[-1], stack[-2]]
        x = lib.cat([state[:, :dim] for state in seen], dim=1)
        tracked, memory = model.track(x, (tracked, memory))
        loss = loss + cross_entropy(model.move(tracked), lib.tensor([move]))
        if move == SHIFT:
            stack.append(buffer.pop())
        else:
            right, left = stack.pop(), stack.pop()
            stack.append(model.merge(left, right, tracked))
    return loss + cross_entropy(model.out(stack[-1][:, :dim]), label)


def by_hand(model, examples):
    """Step by step, all examples at once, the longest first; states leave and enter as rows."""
    lib, dim, n = model.lib, model.dim, len(examples)
    cross_entropy = lib.nn.functional.cross_entropy
    order = sorted(range(n), key=lambda i: -len(examples[i][1]))
    words, moves, labels = zip(*(examples[i] for i in order))
    leaves = model.leaf(lib.tensor([word for sentence in words for word in sentence]))
    nothing = leaves.new_zeros(2 * dim)
    rows, buffers = iter(leaves.unbind()), []
    for sentence in words:
        buffers.append([next(rows) for _ in sentence][::-1])
    stacks = [[nothing, nothing] for _ in words]
    tracked, memory, seen = leaves.new_zeros(n, TRACK), leaves.new_zeros(n, TRACK), []
    for step in range(len(moves[0])):
        active = sum(len(m) > step for m in moves)
        tops = [buffers[i][-1] if buffers[i] else nothing for i in range(active)]
        tops += [stacks[i][-1] for i in range(active)] + [stacks[i][-2] for i in range(active)]
        states = lib.stack(tops).view(3, active, 2 * dim)
        x = states[:, :, :dim].transpose(0, 1).reshape(active, 3 * dim)
        tracked, memory = model.track(x, (tracked[:active], memory[:active]))
        seen.append(tracked)
        reduced = [i for i in range(active) if moves[i][step] == REDUCE]
        if reduced:
            at = lib.tensor(reduced)
            merged = model.merge(states[2][at], states[1][at], tracked[at])
            for i, row in zip(reduced, merged.unbind()):
                stacks[i][-2:] = [row]
        for i in range(active):
            if moves[i][step] == SHIFT:
                stacks[i].append(buffers[i].pop())
    taken = [(i, m[t]) for t in range(len(seen)) for i, m in enumerate(moves) if t < len(m)]
    targets = lib.tensor([move for _, move in taken])
    losses = cross_entropy(model.move(lib.cat(seen)), targets, reduction="none")
    roots = lib.stack([stack[-1] for stack in stacks])[:, :dim]
    total = cross_entropy(model.out(roots), lib.cat(labels), reduction="none")
    total = total.index_add(0, lib.tensor([i for i, _ in taken]), losses)
    return total[lib.tensor(sorted(range(n), key=order.__getitem__))]

"""Adaptive computation time (Graves 2016, arXiv:1603.08983): each example decides when to stop."""

from batching.structures import generator, values, whole

DIM, SIZE, CLASSES, MOST_STEPS, EPSILON, PENALTY = 128, 64, 2, 12, 0.01, 0.01


def make(lib, dim=DIM):
    nn = lib.nn

    class Thinker(nn.Module):
        def __init__(self):
            super().__init__()
            self.lib = lib
            self.cell = nn.GRUCell(SIZE + 1, dim)
            self.halt, self.out = nn.Linear(dim, 1), nn.Linear(dim, CLASSES)
            # Spread the halting of an untrained network over all numbers of steps.
            nn.init.normal_(self.halt.weight, std=2 * dim**-0.5)
            nn.init.constant_(self.halt.bias, -1.5)

    return Thinker()


def examples(lib, seed, n, dim=DIM):
    """Pairs of a vector of shape (64,) and a label without dimensions."""
    rng = generator(seed)
    return [
        (values(lib, rng, SIZE), lib.tensor(whole(rng, 0, CLASSES - 1))) for _ in range(n)
    ]  # fmt: skip


def one(model, example):
    lib = model.lib
    x, label = example
    state, answer = lib.zeros(model.cell.hidden_size), 0.0
    spent, steps = lib.zeros(()), 0
    while True:
        first = lib.ones(1) if steps == 0 else lib.zeros(1)
        state = model.cell(lib.cat([x, first]), state)
        p = model.halt(state).sigmoid().squeeze()
        steps += 1
        if spent + p >= 1 - EPSILON or steps == MOST_STEPS:
            rest = 1 - spent
            scores = model.out(answer + rest * state)
            return lib.nn.functional.cross_entropy(scores, label) + PENALTY * (steps + rest)
        answer = answer + p * state
        spent = spent + p


def by_hand(model, examples):
    """Rows of the examples that still think; those that stop leave."""
    lib, n = model.lib, len(examples)
    x = lib.stack([x for x, _ in examples])
    state, answer = x.new_zeros(n, model.cell.hidden_size), x.new_zeros(n, model.cell.hidden_size)
    spent, active, steps = x.new_zeros(n), lib.arange(n), 0
    answers, costs, order = [], [], []
    while len(active):
        first = (x.new_ones if steps == 0 else x.new_zeros)(len(active), 1)
        state = model.cell(lib.cat([x, first], dim=1), state)
        p = model.halt(state).sigmoid().squeeze(1)
        steps += 1
        stop = (spent + p).detach() >= 1 - EPSILON
        if steps == MOST_STEPS:
            stop = lib.ones_like(stop)
        if stop.any():
            done, rest = stop.nonzero()[:, 0], 1 - spent[stop]
            answers.append(answer[done] + rest.unsqueeze(1) * state[done])
            costs.append(PENALTY * (steps + rest))
            order.append(active[done])
            keep = (~stop).nonzero()[:, 0]
            x, state, answer, p = x[keep], state[keep], answer[keep], p[keep]
            spent, active = spent[keep], active[keep]
        answer = answer + p.unsqueeze(1) * state
        spent = spent + p
    back = lib.cat(order).argsort()
    labels = lib.stack([label for _, label in examples])
    scores = model.out(lib.cat(answers)[back])
    losses = lib.nn.functional.cross_entropy(scores, labels, reduction="none")
    return losses + lib.cat(costs)[back]

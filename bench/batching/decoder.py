"""A GRU decoder: greedy until it says the end symbol, or taught with the right words."""

from batching.structures import generator, values, whole

DIM, WORDS, END, LONGEST = 128, 200, 0, 40


def make(lib, dim=DIM):
    nn = lib.nn

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.lib = lib
            self.word, self.cell = nn.Embedding(WORDS, dim), nn.GRUCell(dim, dim)
            self.out = nn.Linear(dim, WORDS)
            # An untrained decoder repeats itself: larger weights make it wander until it ends.
            for weight in (self.cell.weight_hh, self.cell.weight_ih):
                nn.init.normal_(weight, std=2 * dim**-0.5)
            nn.init.normal_(self.out.weight, std=dim**-0.5)
            nn.init.constant_(self.out.bias, 0.0)
            with lib.no_grad():
                self.out.bias[END] += 1.0

    return Decoder()


def examples(lib, seed, n, dim=DIM):
    """Pairs of a first state of shape (1, dim) and the words to be said, without the end."""
    rng = generator(seed)
    return [
        (values(lib, rng, 1, dim), [whole(rng, 1, WORDS - 1) for _ in range(whole(rng, 4, 30))])
        for _ in range(n)
    ]


def one(model, example):
    """The words said, as Python ints."""
    lib = model.lib
    word, said = END, []
    with lib.no_grad():
        h = example[0]
        while len(said) < LONGEST:
            h = model.cell(model.word(lib.tensor([word])), h)
            word = int(model.out(h).argmax())
            if word == END:
                break
            said.append(word)
    return said


def by_hand(model, examples):
    """The rows that have not ended, fewer and fewer."""
    lib = model.lib
    said, active = [[] for _ in examples], list(range(len(examples)))
    with lib.no_grad():
        h = lib.cat([h for h, _ in examples])
        words = lib.full((len(examples),), END)
        for _ in range(LONGEST):
            h = model.cell(model.word(words), h)
            words = model.out(h).argmax(dim=1)
            found = words.tolist()
            if END in found:
                keep = [row for row, word in enumerate(found) if word != END]
                if not keep:
                    break
                rows = lib.tensor(keep)
                h, words = h[rows], words[rows]
                active, found = [active[row] for row in keep], [found[row] for row in keep]
            for i, word in zip(active, found):
                said[i].append(word)
    return said


def taught(model, example):
    """The loss of the words to be said and the end after them."""
    lib = model.lib
    h, words = example
    last, loss = END, 0.0
    for word in [*words, END]:
        h = model.cell(model.word(lib.tensor([last])), h)
        loss = loss + lib.nn.functional.cross_entropy(model.out(h), lib.tensor([word]))
        last = word
    return loss


def taught_by_hand(model, examples):
    """The longest first, so that a step's rows are the first ones; all scores at the end."""
    lib, n = model.lib, len(examples)
    order = sorted(range(n), key=lambda i: -len(examples[i][1]))
    texts = [[END, *examples[i][1], END] for i in order]
    h, states, inputs, targets, owners = lib.cat([examples[i][0] for i in order]), [], [], [], []
    rows = [sum(len(text) > step + 1 for text in texts) for step in range(len(texts[0]) - 1)]
    for step, active in enumerate(rows):
        inputs += [text[step] for text in texts[:active]]
        targets += [text[step + 1] for text in texts[:active]]
        owners += order[:active]
    for x in model.word(lib.tensor(inputs)).split(rows):
        h = model.cell(x, h[: len(x)])
        states.append(h)
    scores = model.out(lib.cat(states))
    losses = lib.nn.functional.cross_entropy(scores, lib.tensor(targets), reduction="none")
    return losses.new_zeros(n).index_add(0, lib.tensor(owners), losses)

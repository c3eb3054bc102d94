"""A BiLSTM tagger whose rare words are spelled by character LSTMs (Ling et al. 2015).

Sentences and words have unlike lengths, and a frequent word skips the characters, as in DyNet's
and TensorFlow Fold's benchmark of this model.
"""

from batching.structures import generator, whole

DIM, CHAR_DIM, TAGS, WORDS, CHARS = 128, 32, 17, 1000, 60


def make(lib, dim=DIM):
    nn = lib.nn

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.lib = lib
            self.word, self.char = nn.Embedding(WORDS, dim), nn.Embedding(CHARS, CHAR_DIM)
            self.spell = nn.ModuleList([nn.LSTMCell(CHAR_DIM, dim // 2) for _ in range(2)])
            self.read = nn.ModuleList([nn.LSTMCell(dim, dim // 2) for _ in range(2)])
            self.hidden, self.out = nn.Linear(dim, dim), nn.Linear(dim, TAGS)
            self.layers = _layer(nn, self.spell), _layer(nn, self.read)

        def run(self, cell, inputs):
            """The hidden state after each input."""
            h = c = lib.zeros(1, dim // 2)
            states = []
            for x in inputs:
                h, c = cell(x, (h, c))
                states.append(h)
            return states

        def embed(self, word, spelling):
            if word != 0:
                return self.word(lib.tensor([word]))
            letters = self.char(lib.tensor(spelling)).split(1)
            forward, backward = self.spell
            ends = self.run(forward, letters)[-1], self.run(backward, letters[::-1])[-1]
            return lib.cat(ends, dim=1)

        def scores(self, states):
            return self.out(lib.tanh(self.hidden(states)))

    return Tagger()


def _layer(nn, cells):
    """A bidirectional nn.LSTM over the parameters of two cells."""
    layer = nn.LSTM(cells[0].input_size, cells[0].hidden_size, bidirectional=True)
    for cell, suffix in zip(cells, ("", "_reverse")):
        for name, weight in cell.named_parameters():
            setattr(layer, f"{name}_l0{suffix}", weight)
    return layer


def examples(lib, seed, n, dim=DIM):
    """Triples of words, 0 for a rare one; the spelling of each word; the tags."""
    rng = generator(seed)

    def draw(low, high, length):
        return [whole(rng, low, high) for _ in range(length)]

    sentences = []
    for _ in range(n):
        length = whole(rng, 5, 30)
        words = [whole(rng, 1, WORDS - 1) if rng.random() < 0.7 else 0 for _ in range(length)]
        spellings = [draw(0, CHARS - 1, whole(rng, 2, 12)) for _ in words]
        sentences.append((words, spellings, draw(0, TAGS - 1, length)))
    return sentences


def one(model, sentence):
    lib = model.lib
    words = [model.embed(word, spelling) for word, spelling in zip(*sentence[:2])]
    forward, backward = model.read
    after, before = model.run(forward, words), model.run(backward, words[::-1])[::-1]
    states = lib.cat([lib.cat(after), lib.cat(before)], dim=1)
    tags = lib.tensor(sentence[2])
    return lib.nn.functional.cross_entropy(model.scores(states), tags, reduction="sum")


def by_hand(model, examples):
    """Packed sequences, twice: all rare words of the batch, then all sentences."""
    lib, rnn = model.lib, model.lib.nn.utils.rnn
    spell, read = model.layers
    flat = [pair for words, spellings, _ in examples for pair in zip(words, spellings)]
    rare = [spelling for word, spelling in flat if word == 0]
    words = model.word(lib.tensor([word for word, _ in flat]))
    if rare:
        ids = rnn.pack_sequence([lib.tensor(r) for r in rare], enforce_sorted=False)
        _, (ends, _) = spell(ids._replace(data=model.char(ids.data)))
        places = lib.tensor([i for i, (word, _) in enumerate(flat) if word == 0])
        words = words.index_copy(0, places, lib.cat([ends[0], ends[1]], dim=1))
    sizes = [len(example[0]) for example in examples]
    packed = rnn.pack_sequence(words.split(sizes), enforce_sorted=False)
    states = lib.cat(rnn.unpack_sequence(read(packed)[0]))
    tags = lib.tensor([tag for example in examples for tag in example[2]])
    losses = lib.nn.functional.cross_entropy(model.scores(states), tags, reduction="none")
    owner = lib.tensor([i for i, size in enumerate(sizes) for _ in range(size)])
    return losses.new_zeros(len(examples)).index_add(0, owner, losses)

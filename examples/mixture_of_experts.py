"""A mixture of experts reads handwritten digits: a gate sends each picture to one network.

The route is a Python value, `experts[int(best)]` (Fedus et al. 2021, arXiv:2101.03961), of one
picture at a time; one line batches it: pictures of one expert run together. A part of the loss
keeps the experts equally busy. The data are scikit-learn's 8 x 8 digits. With the defaults 0.97
of 360 unseen pictures are right, and every expert has digits of its own.
"""

import argparse
from collections import Counter

from sklearn.datasets import load_digits
from tqdm import tqdm

import weft
from weft import Tensor, nn

BATCH, BALANCE = 32, 0.1


class Mixture(nn.Module):
    def __init__(self, experts: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(64, experts)
        self.experts = nn.ModuleList(
            [
                nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))
                for _ in range(experts)
            ]
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, int]:
        """The scores of the ten digits, the gate's weights, and which expert made the scores."""
        weights = self.gate(x).softmax(dim=0)
        best = int(weights.argmax())
        return weights[best] * self.experts[best](x), weights, best


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--experts", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=16, help="neurons of an expert")
    parser.add_argument("--plain", action="store_true", help="one picture at a time, unbatched")
    args = parser.parse_args()
    weft.manual_seed(0)
    digits = load_digits()
    pictures = (weft.tensor(digits.data).float() / 16).unbind()
    examples: list[tuple[Tensor, int]] = list(zip(pictures, digits.target.tolist(), strict=True))
    order: list[int] = weft.randperm(len(examples)).tolist()
    examples = [examples[i] for i in order]
    test, train = examples[:360], examples[360:]
    model = Mixture(args.experts, args.hidden)
    optimizer = weft.optim.Adam(model.parameters(), lr=3e-3)
    weft.autobatch.enabled = not args.plain

    @weft.autobatch(out_stack=True)
    def losses_of(x: Tensor, digit: int) -> tuple[Tensor, Tensor, Tensor]:
        scores, weights, best = model(x)
        return nn.functional.cross_entropy(scores, weft.tensor(digit)), weights, weft.tensor(best)

    for _ in tqdm(range(args.epochs), unit=" epochs"):
        order = weft.randperm(len(train)).tolist()
        for start in range(0, len(order) - BATCH + 1, BATCH):
            optimizer.zero_grad()
            batch = [train[i] for i in order[start : start + BATCH]]
            losses, weights, best = losses_of(*zip(*batch, strict=True))
            busy = nn.functional.one_hot(best, args.experts).float().mean(dim=0)
            crowded = args.experts * (busy * weights.mean(dim=0)).sum()
            (losses.mean() + BALANCE * crowded).backward()
            optimizer.step()

    @weft.autobatch
    def answer(x: Tensor, digit: int) -> tuple[bool, int]:
        scores, _, best = model(x)
        return scores.argmax().item() == digit, best

    with weft.no_grad():
        right, routes = zip(*answer(*zip(*test, strict=True)), strict=True)
    majority = max(Counter(digit for _, digit in test).values()) / len(test)
    print(f"accuracy {sum(right) / len(right):.3f} on {len(test)} unseen pictures", end=", ")
    print(f"majority class {majority:.3f}")
    for expert in range(args.experts):
        seen = Counter(d for (_, d), route in zip(test, routes, strict=True) if route == expert)
        print(f"expert {expert}: {seen.total()} pictures, mostly of", end=" ")
        print(", ".join(f"{digit} ({n})" for digit, n in seen.most_common(3)))


if __name__ == "__main__":
    main()

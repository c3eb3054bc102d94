"""A variational autoencoder (Kingma & Welling 2014) learns to draw digits.

The data are the 1797 digits of 8 x 8 pixels that scikit-learn ships (UCI), every fifth held out.
Reported: the bound on the negative log-likelihood per unseen image, in nats, beside that of a model
that knows each pixel's mean alone; then four digits drawn from the prior. With the defaults 24.6
against 27.2.
"""

import argparse

from sklearn.datasets import load_digits
from tqdm import tqdm

import weft
from weft import Tensor, nn
from weft.nn import functional as F

SHADES = " .:-=+*#%@"


class VAE(nn.Module):
    def __init__(self, pixels: int, hidden: int, codes: int) -> None:
        super().__init__()
        self.encode = nn.Sequential(
            nn.Linear(pixels, hidden), nn.SiLU(), nn.Linear(hidden, 2 * codes)
        )
        self.decode = nn.Sequential(nn.Linear(codes, hidden), nn.SiLU(), nn.Linear(hidden, pixels))

    def forward(self, x: Tensor) -> Tensor:
        """The bound for each image, (batch,): reconstruction and divergence from the prior."""
        mean, log_var = self.encode(x).chunk(2, dim=-1)
        code = mean + (0.5 * log_var).exp() * weft.randn_like(mean)
        pixels = F.binary_cross_entropy_with_logits(self.decode(code), x, reduction="none")
        divergence: Tensor = 0.5 * (mean.square() + log_var.exp() - 1 - log_var)
        return pixels.sum(-1) + divergence.sum(-1)


def draw(image: Tensor) -> list[str]:
    rows = (image.reshape(8, 8) * (len(SHADES) - 1)).round().long().tolist()
    return ["".join(2 * SHADES[v] for v in row) for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--codes", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    weft.manual_seed(args.seed)
    digits = load_digits()
    images = weft.from_numpy(digits.data).float() / 16
    held_out = weft.arange(len(images)) % 5 == 0
    train, test = images[~held_out], images[held_out]
    model = VAE(images.shape[1], args.hidden, args.codes)
    optimizer = weft.optim.Adam(model.parameters(), lr=2e-3)
    for _ in (progress := tqdm(range(args.epochs), unit=" epochs")):
        for batch in train[weft.randperm(len(train))].split(64):
            loss = model(batch).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            progress.set_postfix(bound=f"{loss.item():.2f}", refresh=False)
    model.eval()
    with weft.no_grad():
        bound = model(test).mean().item()
        mean = train.mean(0).clamp(1e-3, 1 - 1e-3).expand(len(test), -1)
        alone = F.binary_cross_entropy(mean, test, reduction="none").sum(-1).mean().item()
        drawn = [draw(d) for d in model.decode(weft.randn(4, args.codes)).sigmoid()]
    for rows in zip(*drawn):
        print("  ".join(rows))
    print(f"bound {bound:.2f} nats on unseen digits, {alone:.2f} by the pixels' means alone")


if __name__ == "__main__":
    main()

"""REINFORCE (Williams 1992) learns to balance a pole.

The environment is Gymnasium's CartPole-v1: a reward of one for each step, 500 at most. Episodes are
as long as the policy makes them; each is one graph. Reported: the mean return of the last episodes
beside that of the first. With the defaults it goes from about 20 to several hundred.
"""

import argparse
import statistics
from typing import Any

import gymnasium
from tqdm import tqdm

import weft
from weft import Tensor, nn


def play(
    environment: Any, policy: nn.Sequential, seed: int | None = None
) -> tuple[Tensor, list[float]]:
    """One episode: the log-probabilities of the actions taken, and the rewards."""
    observation, _ = environment.reset(seed=seed)
    log_probs: list[Tensor] = []
    rewards: list[float] = []
    over = False
    while not over:
        choices = policy(weft.tensor(observation)).log_softmax(-1)
        action = int(weft.multinomial(choices.exp(), 1))
        observation, reward, terminated, truncated, _ = environment.step(action)
        log_probs.append(choices[action])
        rewards.append(float(reward))
        over = terminated or truncated
    return weft.stack(log_probs), rewards


def returns(rewards: list[float], discount: float) -> Tensor:
    """The discounted sum of what follows each step, normalised over the episode."""
    out: list[float] = []
    total = 0.0
    for reward in reversed(rewards):
        total = reward + discount * total
        out.append(total)
    values = weft.tensor(out[::-1])
    return (values - values.mean()) / (values.std(correction=0) + 1e-6)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--discount", type=float, default=0.99)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    weft.manual_seed(args.seed)
    environment = gymnasium.make("CartPole-v1")
    policy = nn.Sequential(nn.Linear(4, args.hidden), nn.Tanh(), nn.Linear(args.hidden, 2))
    optimizer = weft.optim.Adam(policy.parameters(), lr=5e-3)
    lengths: list[float] = []
    for episode in (progress := tqdm(range(args.episodes), unit=" episodes")):
        log_probs, rewards = play(environment, policy, args.seed if episode == 0 else None)
        loss = -(log_probs * returns(rewards, args.discount)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lengths.append(sum(rewards))
        progress.set_postfix(length=f"{statistics.mean(lengths[-20:]):.0f}")
    part = max(1, args.episodes // 10)
    first, last = statistics.mean(lengths[:part]), statistics.mean(lengths[-part:])
    print(f"mean return {last:.0f} in the last {part} episodes, {first:.0f} in the first")


if __name__ == "__main__":
    main()

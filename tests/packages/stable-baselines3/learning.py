"""PPO, A2C, DQN and SAC learn for a moment; a policy is saved and loaded."""

import numpy as np
from stable_baselines3 import A2C, DQN, PPO, SAC

for algorithm, env, how, steps in (
    (PPO, "CartPole-v1", {"n_steps": 64, "batch_size": 32, "n_epochs": 2}, 128),
    (A2C, "CartPole-v1", {}, 100),
    (DQN, "CartPole-v1", {"learning_starts": 50}, 150),
    (SAC, "Pendulum-v1", {"learning_starts": 50, "batch_size": 32}, 80),
):
    model = algorithm("MlpPolicy", env, seed=0, device="cpu", **how)
    model.learn(steps)
    size = sum(p.double().abs().sum().item() for p in model.policy.parameters())
    state = np.zeros(model.observation_space.shape, np.float32)
    action, _ = model.predict(state, deterministic=True)
    print(algorithm.__name__, f"{size:.1f}", np.round(action, 2))
    model.save("model")
    again, _ = algorithm.load("model").predict(state, deterministic=True)
    assert np.array_equal(again, action)
print(model.policy)

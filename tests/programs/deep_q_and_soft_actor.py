"""Deep Q-learning over a replay memory, and a soft actor with two critics."""

import random
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, n):
        return random.sample(self.memory, n)

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.layer1, self.layer2 = nn.Linear(n_obs, 32), nn.Linear(32, n_act)

    def forward(self, x):
        return self.layer2(F.relu(self.layer1(x)))


policy_net, target_net = DQN(4, 2), DQN(4, 2)
target_net.load_state_dict(policy_net.state_dict())
optimizer = optim.AdamW(policy_net.parameters(), lr=1e-3, amsgrad=True)
memory = ReplayMemory(100)
state = torch.randn(1, 4)
for step in range(60):
    action = (
        policy_net(state).max(1).indices.view(1, 1)
        if random.random() > 0.3
        else torch.tensor([[random.randrange(2)]], dtype=torch.long)
    )
    nxt = None if step % 10 == 9 else state * 0.9 + action * 0.1
    memory.push(state, action, nxt, torch.tensor([float(action)]))
    state = nxt if nxt is not None else torch.randn(1, 4)
    if len(memory) < 16:
        continue
    batch = Transition(*zip(*memory.sample(16)))
    mask = torch.tensor(tuple(map(lambda s: s is not None, batch.next_state)), dtype=torch.bool)
    nn_states = torch.cat([s for s in batch.next_state if s is not None])
    q = policy_net(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
    nv = torch.zeros(16)
    with torch.no_grad():
        nv[mask] = target_net(nn_states).max(1).values
    loss = nn.SmoothL1Loss()(q, ((nv * 0.99) + torch.cat(batch.reward)).unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    t, p = target_net.state_dict(), policy_net.state_dict()
    for key in p:
        t[key] = p[key] * 0.005 + t[key] * (1 - 0.005)
    target_net.load_state_dict(t)
    if step % 15 == 14:
        print(step, f"{loss.item():.5f}")
LOG_STD_MAX, LOG_STD_MIN = 2, -5


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc_mean, self.fc_logstd = (
            nn.Linear(3, 32),
            nn.Linear(32, 1),
            nn.Linear(32, 1),
        )
        self.register_buffer("action_scale", torch.tensor((2.0 - -2.0) / 2.0, dtype=torch.float32))
        self.register_buffer("action_bias", torch.tensor(0.0, dtype=torch.float32))

    def get_action(self, x):
        x = F.relu(self.fc1(x))
        mean, log_std = self.fc_mean(x), torch.tanh(self.fc_logstd(x))
        log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (log_std + 1)
        normal = torch.distributions.Normal(mean, log_std.exp())
        x_t = normal.rsample()
        y_t = torch.tanh(x_t)
        log_prob = normal.log_prob(x_t) - torch.log(self.action_scale * (1 - y_t.pow(2)) + 1e-6)
        return y_t * self.action_scale + self.action_bias, log_prob.sum(1, keepdim=True)


class SoftQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x, a):
        return self.f(torch.cat([x, a], 1))


actor, qf1, qf2, t1, t2 = Actor(), SoftQ(), SoftQ(), SoftQ(), SoftQ()
t1.load_state_dict(qf1.state_dict())
t2.load_state_dict(qf2.state_dict())
q_opt = optim.Adam(list(qf1.parameters()) + list(qf2.parameters()), lr=1e-3)
a_opt = optim.Adam(list(actor.parameters()), lr=3e-4)
target_entropy = -torch.prod(torch.Tensor((1,))).item()
log_alpha = torch.zeros(1, requires_grad=True)
alpha = log_alpha.exp().item()
al_opt = optim.Adam([log_alpha], lr=1e-3)
for step in range(10):
    s, a, s2, r, d = (
        torch.randn(32, 3),
        torch.rand(32, 1),
        torch.randn(32, 3),
        torch.randn(32, 1),
        torch.zeros(32, 1),
    )
    with torch.no_grad():
        na, nlp = actor.get_action(s2)
        mn = torch.min(t1(s2, na), t2(s2, na)) - alpha * nlp
        nq = r.flatten() + (1 - d.flatten()) * 0.99 * mn.view(-1)
    l1, l2 = F.mse_loss(qf1(s, a).view(-1), nq), F.mse_loss(qf2(s, a).view(-1), nq)
    q_opt.zero_grad()
    (l1 + l2).backward()
    q_opt.step()
    pi, lp = actor.get_action(s)
    al = ((alpha * lp) - torch.min(qf1(s, pi), qf2(s, pi))).mean()
    a_opt.zero_grad()
    al.backward()
    a_opt.step()
    with torch.no_grad():
        _, lp = actor.get_action(s)
    aloss = (-log_alpha.exp() * (lp + target_entropy)).mean()
    al_opt.zero_grad()
    aloss.backward()
    al_opt.step()
    alpha = log_alpha.exp().item()
    for p, tp in zip(qf1.parameters(), t1.parameters()):
        tp.data.copy_(0.05 * p.data + 0.95 * tp.data)
    if step % 3 == 0:
        print(
            step, f"{l1.item():.4f} {l2.item():.4f} {al.item():.4f} {aloss.item():.4f} {alpha:.4f}"
        )

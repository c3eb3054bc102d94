"""Python numbers and dtypes: what meets what, and how the outcome prints."""

import torch

values = {
    "bool": torch.tensor([True, False]),
    "int64": torch.tensor([3, -4]),
    "float32": torch.tensor([0.5, 2.0]),
    "float64": torch.tensor([0.25, -8.0], dtype=torch.float64),
}
for name, a in values.items():
    for other, b in values.items():
        print(name, "*", other, (a * b).dtype, a * b)
    for number in (True, 2, 2.5):
        print(name, "+", number, a + number, number * a)

for a in (values["int64"], values["float64"]):
    print(a / 2, a // 2, a % 3, a**2, -a, abs(a), 1 / a, 2 ** a.abs())
print(torch.tensor(3) + torch.tensor([0.5]), torch.tensor(0.5, dtype=torch.float64) * torch.ones(1))
print(torch.tensor(2.5) + torch.tensor([1, 2]), torch.tensor(2) ** 0.5)
print(values["int64"] > 0, values["float32"] == 0.5, values["bool"] & True, ~values["bool"])
print(values["bool"].sum(), values["int64"].sum(), values["int64"].float().mean())
print(
    values["bool"].float(),
    values["float32"].long(),
    values["int64"].double(),
    values["int64"].bool(),
)
print(values["float64"].to(torch.float32), values["float32"].to(values["float64"].dtype))
print(torch.div(torch.tensor(7), 2), torch.div(torch.tensor(-7), 2, rounding_mode="floor"))

for data in (1, 1.0, True, [1, 2.0], [True, 2], [[1], [2]], (), [[]]):
    t = torch.tensor(data)
    print(data, "->", t, t.dtype, t.shape, t.dim(), t.numel())
print(torch.arange(5), torch.arange(0, 1, 0.25), torch.arange(5, 0, -2), torch.linspace(0, 1, 5))
print(torch.zeros(2, dtype=torch.int64), torch.full((2,), 7), torch.full((2,), 7.0))
print(torch.ones_like(values["int64"]), torch.zeros_like(values["float64"]), torch.empty(0).dtype)

scalar = torch.tensor(3.75)
print(
    float(scalar), int(scalar), bool(scalar), scalar.item(), round(scalar.item()), f"{scalar:.1f}"
)
print(scalar > 3, 4 > scalar, scalar == 3.75, scalar in [torch.tensor(1.0), scalar])
print(range(10)[torch.tensor(3)], [10, 20, 30][torch.tensor(1)], "ab" * torch.tensor(2))
print(
    values["int64"].tolist(), values["float32"].tolist(), values["bool"].tolist(), scalar.tolist()
)
print(torch.zeros(2, 3).size(), torch.zeros(2, 3).size(1), torch.zeros(2, 3).shape[0] * 2)
print(torch.tensor(1.0) / 0, torch.tensor(0.0) / 0, -torch.tensor(1.0) / 0)
print(torch.isnan(torch.tensor([1.0, float("nan")])), torch.tensor([1.0, float("inf")]).isinf())
print(torch.promote_types(torch.int64, torch.float32), torch.get_default_dtype())

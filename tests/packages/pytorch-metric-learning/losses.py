"""Losses over pairs, triplets and proxies with their gradients; miners; a memory of embeddings."""

import torch
from pytorch_metric_learning import distances, losses, miners

torch.manual_seed(0)
embeddings, labels = torch.randn(24, 8, requires_grad=True), torch.arange(24) % 4
for loss in (
    losses.TripletMarginLoss(), losses.ContrastiveLoss(), losses.NTXentLoss(), losses.SupConLoss(),
    losses.ArcFaceLoss(4, 8), losses.ProxyAnchorLoss(4, 8), losses.MultiSimilarityLoss(),
    losses.CircleLoss(), losses.LiftedStructureLoss(), losses.AngularLoss(), losses.FastAPLoss(),
    losses.SoftTripleLoss(4, 8), losses.MarginLoss(), losses.HistogramLoss(n_bins=20),
):  # fmt: skip
    value = loss(embeddings, labels)
    (grad,) = torch.autograd.grad(value, embeddings)
    print(type(loss).__name__, f"{value.item():.4f} {grad.norm().item():.3f}")
for miner in (miners.MultiSimilarityMiner(), miners.TripletMarginMiner(), miners.BatchHardMiner()):
    print(type(miner).__name__, [len(part) for part in miner(embeddings, labels)])
loss = losses.TripletMarginLoss(distance=distances.CosineSimilarity())
print(f"{loss(embeddings, labels).item():.4f}")
memory = losses.CrossBatchMemory(losses.NTXentLoss(), 8, memory_size=32)
print([f"{memory(embeddings, labels).item():.4f}" for _ in range(2)])

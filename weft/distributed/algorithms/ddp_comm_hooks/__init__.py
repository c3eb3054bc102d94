"""Ways to exchange gradients, for `DistributedDataParallel.register_comm_hook`."""

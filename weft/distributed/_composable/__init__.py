"""Functions over modules: by the path that they had before `torch.distributed.fsdp`."""

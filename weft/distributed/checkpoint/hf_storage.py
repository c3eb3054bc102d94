"""Shards in safetensors files: classes that packages import; none can be made here."""

from weft.base.absent import raising_class

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]


def _absent(name: str) -> type:
    text = (
        f"[{name}] expected the state of one process, got one in shards. Hint: torch.save, or "
        "safetensors.torch.save_file, writes a model that one process holds"
    )
    doc = "Shards in files of safetensors. Making one raises NotImplementedError."
    return raising_class(name, __name__, NotImplementedError, text, doc)


HuggingFaceStorageReader = _absent("HuggingFaceStorageReader")
HuggingFaceStorageWriter = _absent("HuggingFaceStorageWriter")

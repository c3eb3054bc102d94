"""Files of programs: safetensors with the package in the header; loading runs no code of a file.

The metadata has `weft`, the package's JSON; `weft.module`, what Modules it was made of; and extra
files, in base64.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from typing import IO, Any

from weft import Tensor, safetensors

File = str | os.PathLike[str] | IO[bytes]
_EXTRA = "weft.extra."


def write(file: File, package: str, module: dict[str, Any], tensors: Mapping[str, Tensor],
          extra: Mapping[str, str | bytes]) -> None:  # fmt: skip
    """Writes a program: by path atomically, into a file object as it is."""
    metadata = {"weft": package, "weft.module": json.dumps(module)}
    for name, content in extra.items():
        raw = content.encode() if isinstance(content, str) else content
        metadata[_EXTRA + name] = base64.b64encode(raw).decode()
    apart = _apart(tensors)
    if isinstance(file, (str, os.PathLike)):
        from weft._checkpoint.atomic import expect_folder

        expect_folder(file)
        safetensors.save_file(apart, file, metadata)
    else:
        file.write(safetensors.save(apart, metadata))


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors that share no memory, dense: those that do are copied."""
    out, seen = {}, set()
    for name, tensor in tensors.items():
        tensor = tensor.detach()
        address = tensor._storage_info()[0]
        fresh = tensor.is_contiguous() and tensor.storage_offset() == 0 and address not in seen
        out[name] = tensor if fresh else tensor.contiguous().clone()
        seen.add(address)
    return out


class Read:
    """What a file has; one that is named by a path is mapped.

    Attributes:
        package: the package's JSON.
        module: what Modules it was made of.
        tensors: by name.
        extra: further files.
    """

    def __init__(self, file: File) -> None:
        try:
            self.tensors, metadata = _parts(file)
        except safetensors.SafetensorError as error:
            raise RuntimeError(f"[load] expected a file that jit.save wrote, got {error}") from None
        if "weft" not in metadata:
            raise RuntimeError(
                "[load] expected a file that jit.save wrote, got safetensors without a program. "
                "Hint: weft.safetensors.load_file reads them"
            )
        self.package = metadata["weft"]
        self.module = module_of(metadata.get("weft.module", "{}"))
        try:
            self.extra = {
                name.removeprefix(_EXTRA): base64.b64decode(content)
                for name, content in metadata.items()
                if name.startswith(_EXTRA)
            }
        except ValueError as error:
            raise RuntimeError(
                f"[load] expected a file that jit.save wrote, got extra files in no base64: {error}"
            ) from None


def _parts(file: File) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata."""
    if not isinstance(file, (str, os.PathLike)):
        return safetensors.read(file.read())
    if os.path.isdir(file):
        raise ValueError(f"[load] expected a file, got the folder {os.fspath(file)}")
    if not os.path.isfile(file):
        raise ValueError(f"The provided filename {os.fspath(file)} does not exist")
    return safetensors.mapped(file)


def module_of(text: str) -> dict[str, Any]:
    """What is said of the Modules, where it has the form that it should have."""
    fields: dict[str, type] = {
        "parameters": dict, "buffers": list, "modules": dict, "training": dict, "code": str,
        "sizes": list, "inputs": dict, "modes": dict, "aliases": dict, "empty": list,
        "passing": list, "attributes": list, "example": dict, "known": dict, "fixed": dict,
    }  # fmt: skip
    try:
        found = json.loads(text)
        good = isinstance(found, dict) and all(
            isinstance(found.get(name, kind()), kind) for name, kind in fields.items()
        )
    except (ValueError, RecursionError):
        good = False
    if not good:
        raise RuntimeError("[load] expected a file that jit.save wrote, got a broken header")
    return {name: found.get(name, kind()) for name, kind in fields.items()}

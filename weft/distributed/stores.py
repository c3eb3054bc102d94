"""Values by key, which processes share: of this process, or in a file.

Nothing listens at a port here: what several processes share lies in a file, which they lock
(flock) for each operation, and who waits for a key looks again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator
from datetime import timedelta

from weft.distributed import leaving, over_mpi

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]

#: Between the looks of who waits for a key, in seconds.
_PAUSE = 0.01


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class Store:
    """Values by key, which the processes of a group share.

    >>> store = weft.distributed.HashStore()
    >>> store.add("steps", 2)
    2
    """

    #: How long `get` and `wait` wait for a key.
    timeout = timedelta(seconds=300)

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    @contextlib.contextmanager
    def _open(self) -> Iterator[dict[str, bytes]]:
        """A scope in which this process alone reads and writes the values."""
        yield self._values

    def _is_own(self) -> bool:
        """Whether no other process sets keys."""
        return True

    def set_timeout(self, timeout: timedelta) -> None:
        """How long `get` and `wait` wait for a key: 300 seconds by default."""
        self.timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Keeps a value."""
        with self._open() as values:
            values[key] = _bytes(value)

    def get(self, key: str) -> bytes:
        """The value of a key, once it is there.

        Raises: RuntimeError where it is not set in time, or no other process could.
        """
        self.wait([key])
        with self._open() as values:
            return values[key]

    def multi_get(self, keys: Iterable[str]) -> list[bytes]:
        """`get` of each."""
        return [self.get(key) for key in keys]

    def add(self, key: str, amount: int) -> int:
        """Adds to a counter, and gives its new value."""
        with self._open() as values:
            value = int(values.get(key, b"0")) + amount
            values[key] = str(value).encode()
        return value

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        """Sets a key that has the expected value, or none where that is ""; what it has then."""
        with self._open() as values:
            if values.get(key, b"") == _bytes(expected_value):
                values[key] = _bytes(desired_value)
            return values.get(key, _bytes(expected_value))

    def check(self, keys: Iterable[str]) -> bool:
        """Whether all keys were set."""
        with self._open() as values:
            return all(key in values for key in keys)

    def wait(self, keys: Iterable[str], timeout: timedelta | None = None) -> None:
        """Until all keys are set. RuntimeError where they are not in time, or nobody else could."""
        wanted, limit = list(keys), timeout or self.timeout
        end = time.monotonic() + limit.total_seconds()
        while not self.check(wanted):
            if self._is_own() or time.monotonic() > end:
                missing = next((key for key in wanted if not self.check([key])), wanted[0])
                raise RuntimeError(
                    f"[Store] expected a key that was set, got {missing!r} (wait timeout after "
                    f"{int(limit.total_seconds() * 1000)}ms)"
                )
            time.sleep(_PAUSE)

    def delete_key(self, key: str) -> bool:
        """Forgets a key; whether it was there."""
        with self._open() as values:
            return values.pop(key, None) is not None

    def num_keys(self) -> int:
        """How many keys there are."""
        with self._open() as values:
            return len(values)


class HashStore(Store):
    """A store of this process.

    >>> store = weft.distributed.HashStore()
    >>> store.set("a", "1")
    >>> store.get("a")
    b'1'
    """


class FileStore(Store):
    """A store in a file, of all processes that name it, on a file system that they all see.

    Args:
        path: the file, which is made if need be, and stays.
        world_size: how many processes share it; 1: `get` waits for none.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = weft.distributed.FileStore(folder + "/values", 1)
    ...     store.set("a", "1")
    ...     weft.distributed.FileStore(folder + "/values", 1).get("a")
    b'1'
    """

    def __init__(self, path: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = os.fspath(path)
        self._world_size = world_size
        with self._open():
            pass

    def _is_own(self) -> bool:
        return self._world_size == 1

    @contextlib.contextmanager
    def _open(self) -> Iterator[dict[str, bytes]]:
        with open(self.path, "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            before = file.read()
            found = json.loads(before) if before else {}
            values = {key: bytes.fromhex(value) for key, value in found.items()}
            yield values
            after = json.dumps({key: value.hex() for key, value in values.items()}).encode()
            if after != before:
                file.truncate(0)
                file.write(after)
                file.flush()


class TCPStore(FileStore):
    """A store that the ranks of a launch on this machine share under a port's number.

    No port is opened: the values lie in a file of the launch's folder. A process alone has its own.

    Args:
        host_name, port: who names the same port shares the values.
        world_size: how many processes share it; None: any number.
        is_master: makes no difference here.
        timeout: how long `get` and `wait` wait for a key.
        wait_for_workers: wait until as many as `world_size` have made it.
        multi_tenant, master_listen_fd, use_libuv: as PyTorch's; nothing listens.

    Raises: RuntimeError for several processes that are not of one launch on this machine.

    >>> store = weft.distributed.TCPStore("127.0.0.1", 29501, 1, True)
    >>> store.set("a", "1")
    >>> store.get("a"), store.port
    (b'1', 29501)
    """

    def __init__(
        self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False,
        timeout: timedelta = Store.timeout, wait_for_workers: bool = True,
        multi_tenant: bool = False, master_listen_fd: int | None = None,
        use_libuv: bool | None = None,
    ) -> None:  # fmt: skip
        self.host, self.port, self.timeout = host_name, port, timeout
        folder = os.environ.get(leaving.FOLDER)
        is_alone = world_size == 1 or not over_mpi.is_launched()
        if world_size not in (None, 1) and (folder is None or is_alone):
            raise RuntimeError(
                f"[TCPStore] expected the ranks of one `weft launch` on this machine to share "
                f"values, got a process of {world_size} that is not of one: no port is opened "
                "here. Hint: FileStore, on a file system that all see"
            )
        if folder is None or is_alone:
            Store.__init__(self)
            self._world_size, self.path = 1, ""
            return
        super().__init__(os.path.join(folder, f"store-{port}"), world_size or -1)
        if world_size is not None and wait_for_workers:
            self.add("init/", 1)
            self._wait_for(world_size)

    def _wait_for(self, count: int) -> None:
        end = time.monotonic() + self.timeout.total_seconds()
        while (there := self.add("init/", 0)) % count:
            if time.monotonic() > end:
                raise RuntimeError(
                    f"[TCPStore] expected {count} processes within "
                    f"{self.timeout.total_seconds():g} s, got {there % count} (Timed out)"
                )
            time.sleep(_PAUSE)

    @contextlib.contextmanager
    def _open(self) -> Iterator[dict[str, bytes]]:
        if self.path:
            with super()._open() as values:
                yield values
        else:
            yield self._values


class PrefixStore(Store):
    """Another store, whose keys begin with a word and a slash.

    >>> store = weft.distributed.HashStore()
    >>> weft.distributed.PrefixStore("mine", store).set("a", "1")
    >>> store.get("mine/a")
    b'1'
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self.prefix, self.underlying_store = prefix, store
        self.timeout = store.timeout

    def _is_own(self) -> bool:
        return self.underlying_store._is_own()

    @contextlib.contextmanager
    def _open(self) -> Iterator[dict[str, bytes]]:
        start = self.prefix + "/"
        with self.underlying_store._open() as values:
            mine = {key[len(start) :]: v for key, v in values.items() if key.startswith(start)}
            before = dict(mine)
            yield mine
            for key in before.keys() - mine.keys():
                del values[start + key]
            values.update({start + key: value for key, value in mine.items()})

"""What packages import of torch.distributed: it means what it means for one process, or says no."""

import importlib

import pytest

import weft
import weft.distributed as dist


@pytest.fixture
def world():
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    yield
    dist.destroy_process_group()


def test_a_mesh_of_one_process(world):
    mesh = dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    assert mesh.shape == (1, 1) and mesh.ndim == 2 and mesh.size() == 1 == mesh.size(1)
    assert mesh.get_coordinate() == [0, 0] and mesh.get_rank() == 0
    assert mesh.get_local_rank("tp") == 0 and dist.get_world_size(mesh.get_group("dp")) == 1
    assert mesh["tp"].mesh_dim_names == ("tp",) and mesh["tp"].ndim == 1
    assert mesh["tp", "dp"].mesh_dim_names == ("tp", "dp")
    assert len(mesh.get_all_groups()) == 2
    assert mesh == dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    assert mesh != mesh["tp"] and len({mesh, mesh["tp"]}) == 2
    assert repr(mesh) == "DeviceMesh((dp=1, tp=1), 'cpu', stride=(1, 1))"
    assert repr(dist.DeviceMesh("cpu", [0])) == "DeviceMesh((1,), 'cpu', stride=(1,))"


@pytest.mark.parametrize(
    ("shape", "names", "error", "text"),
    [
        ((1, 1), ("a", "a"), RuntimeError, "must be unique"),
        ((1,), ("a", "b"), RuntimeError, "should have same length"),
        ((2,), None, RuntimeError, "should not be bigger than default world size"),
    ],
)
def test_meshes_that_cannot_be(world, shape, names, error, text):
    with pytest.raises(error, match=text):
        dist.init_device_mesh("cpu", shape, mesh_dim_names=names)


def test_a_dimension_that_a_mesh_has_not(world):
    mesh = dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "b"))
    with pytest.raises(KeyError, match="Invalid mesh_dim_name c"):
        mesh["c"]
    with pytest.raises(RuntimeError, match="have 2 dimensions"):
        mesh.get_group()


def test_parts_are_those_of_pytorch(torch):
    from torch.distributed.tensor import Shard as Theirs

    from weft.distributed.tensor import Partial, Replicate, Shard

    for size in range(7):
        for count in range(1, 5):
            for rank in range(count):
                ours = Shard.local_shard_size_and_offset(size, count, rank)
                assert ours == tuple(Theirs.local_shard_size_and_offset(size, count, rank))
    assert Shard(1).is_shard() and Shard(1).is_shard(1) and not Shard(1).is_shard(0)
    assert Replicate().is_replicate() and Partial().is_partial("sum") and Shard(0) == Shard(0)


def test_a_process_of_one_has_all_of_a_tensor(world):
    from weft.distributed.tensor import Replicate, Shard
    from weft.distributed.tensor._utils import compute_local_shape_and_global_offset

    mesh = dist.init_device_mesh("cpu", (1, 1))
    found = compute_local_shape_and_global_offset((3, 4), mesh, [Shard(0), Replicate()])
    assert found == ((3, 4), (0, 0))


def test_an_exchange_with_oneself_has_gradients(world):
    from weft.distributed._functional_collectives import all_to_all_single_autograd, wait_tensor

    x = weft.ones(3, requires_grad=True)
    y = wait_tensor(all_to_all_single_autograd(x, [3], None, dist.group.WORLD))
    (2 * y).sum().backward()
    assert x.grad.tolist() == [2.0] * 3 and y is not x
    for sizes in (([2], [2]), (None, [2]), ([3], [1, 2])):
        with pytest.raises(RuntimeError, match="Split sizes|Number of tensor splits"):
            all_to_all_single_autograd(x, *sizes, dist.group.WORLD)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("tensor", "distribute_module"), ("fsdp", "FullyShardedDataParallel"),
        ("optim", "DistributedOptimizer"), ("optim", "PostLocalSGDOptimizer"),
        ("checkpoint.hf_storage", "HuggingFaceStorageReader"),
    ],
)  # fmt: skip
def test_what_is_not_here_says_so_when_it_is_used(module, name):
    thing = getattr(importlib.import_module(f"weft.distributed.{module}"), name)
    if isinstance(thing, type):
        assert not isinstance(weft.nn.Linear(1, 1), thing)
    with pytest.raises(NotImplementedError, match=r"expected .*, got .*Hint"):
        thing(weft.nn.Linear(1, 1))


def test_policies_choose_what_pytorchs_choose(torch):
    import torch.distributed.fsdp.wrap as theirs

    import weft.distributed.fsdp.wrap as ours

    for t, wrap in ((torch, theirs), (weft, ours)):
        nn = t.nn
        linear, heads, several = nn.Linear(2, 2), nn.MultiheadAttention(4, 2), nn.ModuleList()
        found = [
            wrap.size_based_auto_wrap_policy(m, recurse, count, min_num_params=5)
            for m in (linear, heads, several)
            for recurse in (True, False)
            for count in (4, 6)
        ] + [
            wrap.transformer_auto_wrap_policy(m, recurse, 0, {nn.Linear})
            for m in (linear, heads)
            for recurse in (True, False)
        ]
        policy = wrap.ModuleWrapPolicy({nn.Linear})
        found += [policy(linear, False), policy(heads, False), policy(heads, True)]
        is_linear = [lambda module, recurse, nonwrapped_numel: isinstance(module, nn.Linear)]
        found += [wrap._or_policy(m, False, 0, is_linear) for m in (linear, heads)]
        with wrap.enable_wrap(wrapper_cls=lambda m, n: (m, n), n=1):
            found += [wrap.wrap(linear)[1], wrap.wrap(linear, n=2)[1]]
        found.append(wrap.wrap(linear) is linear)
        if t is torch:
            expected = found
    assert found == expected


def test_settings_have_pytorchs_fields_and_defaults(torch):
    import torch.distributed.fsdp as theirs

    import weft.distributed.fsdp as ours

    for name in ("CPUOffload", "MixedPrecision", "FullStateDictConfig", "CPUOffloadPolicy",
                 "ShardedOptimStateDictConfig", "MixedPrecisionPolicy"):  # fmt: skip
        mine, other = vars(getattr(ours, name)()), vars(getattr(theirs, name)())
        for kept in (mine, other):
            kept.pop("_module_classes_to_ignore", None)
        assert mine == other
    for name in ("ShardingStrategy", "StateDictType", "BackwardPrefetch"):
        assert {m.name for m in getattr(ours, name)} == {m.name for m in getattr(theirs, name)}


def test_stores_of_one_process(tmp_path):
    path = str(tmp_path / "values")
    for store in (dist.HashStore(), dist.FileStore(path, 1), dist.TCPStore("localhost", 1, 1)):
        store.set("a", b"\0\xff")
        assert store.get("a") == b"\0\xff" and store.num_keys() == 1 and store.add("n", -3) == -3
        assert store.compare_set("a", "other", "x") == b"\0\xff"
        assert store.compare_set("b", "", "x") == b"x" and store.delete_key("b")
        with pytest.raises(RuntimeError, match="got 'never'"):  # nobody else could set it
            store.get("never")
    assert dist.FileStore(path, 1).get("n") == b"-3"
    with pytest.raises(RuntimeError, match="no port is opened here. Hint: FileStore"):
        dist.TCPStore("localhost", 29500, 2, True)


def test_storages_of_buffers(torch):
    data = bytes(range(1, 17))
    for name in ("ByteStorage", "FloatStorage", "LongStorage"):
        for more in ({}, {"count": 1, "offset": 8}):
            for order in ("little", "big"):
                ours, theirs = (
                    getattr(t, name).from_buffer(data, byte_order=order, **more).tolist()
                    for t in (weft, torch)
                )
                assert ours == theirs
    tensor = weft.ByteTensor(weft.ByteStorage.from_buffer(data))
    assert tensor.tolist() == list(data)
    with pytest.raises(ValueError, match="whole elements of 4"):
        weft.FloatStorage.from_buffer(b"abc", "native")

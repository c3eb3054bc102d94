"""Names that packages import: each answers what PyTorch's build for the CPU answers.

A line is an expression of `t`, weft or PyTorch; values have to print alike, exceptions to be of one
type and to hold PyTorch's sentence.
"""

import collections
import importlib
import subprocess
import sys
import threading
import warnings

import pytest

import weft

DEVICES = """
t.cuda.is_available()
t.cuda.device_count()
t.cuda.is_initialized()
t.cuda._initialized
t.cuda._is_in_bad_fork()
t.cuda.Stream()
t.cuda.Event()
t.cuda.CUDAGraph()
t.cuda.graph(None)
t.cuda.MemPool()
t.cuda.stream(None).__enter__()
t.cuda.StreamContext(None).__exit__(None, None, None)
t.cuda.current_stream()
t.cuda.current_device()
t.cuda.synchronize()
t.cuda.get_device_name()
t.cuda.get_device_properties(0)
t.cuda.get_device_capability()
t.cuda.mem_get_info()
t.cuda.memory_allocated("cuda:0")
t.cuda.max_memory_allocated(device=0)
t.cuda.max_memory_reserved()
t.cuda.memory_stats()
t.cuda.empty_cache()
t.cuda.manual_seed_all(0)
t.cuda.get_rng_state()
t.cuda.get_rng_state_all()
t.cuda.set_rng_state_all([])
t.cuda.initial_seed()
t.cuda.get_arch_list()
t.cuda.get_gencode_flags()
t.cuda.is_bf16_supported()
t.cuda.cudart()
t.cuda.is_current_stream_capturing()
t.cuda.graph_pool_handle()
t.cuda.device(-1).__enter__()
t.cuda.device(0).__enter__()
t.cuda.device("cpu")
t.cuda.device_of(t.ones(1)).__enter__()
t.cuda.set_device(-1)
t.cuda.set_device("cuda")
t.cuda._lazy_init()
t.cuda._get_device_index("cuda:1")
t.cuda._get_device_index("cpu")
t.cuda._get_device_index("cpu", allow_cpu=True)
t.cuda._get_device_index(None)
t.cuda._get_device_index(None, optional=True)
t.cuda.FloatTensor
t.cuda.FloatTensor([1])
t.cuda.sparse.FloatTensor()
isinstance(t.ones(1), t.cuda.FloatTensor)
t.cuda.nvtx.range_push("a")
t.cuda.nvtx.range("a").__enter__()
t.cuda.profiler.start()
t.cuda.OutOfMemoryError is t.OutOfMemoryError
issubclass(t.OutOfMemoryError, RuntimeError)
t.xpu.is_available()
t.xpu.device_count()
t.xpu.Stream()
t.xpu.Event()
t.xpu.current_device()
t.xpu.synchronize()
t.xpu.empty_cache()
t.xpu.memory_allocated()
t.xpu.get_rng_state_all()
t.xpu.device(0).__enter__()
t.xpu.device("cpu")
t.xpu.set_device(0)
t.mps.is_available()
t.mps.device_count()
t.mps.synchronize()
t.mps.empty_cache()
t.mps.current_allocated_memory()
t.mps.get_rng_state()
t.mps.compile_shader("")
t.mtia.is_available()
t.mtia.device_count()
t.mtia.current_device()
t.mtia.synchronize()
t.mtia.device(0).__enter__()
t.cpu.is_available()
t.cpu.device_count()
t.cpu.current_device()
t.cpu.synchronize()
t.cpu.Event().query()
t.get_device_module("cuda").device_count()
t.get_device_module().device_count()
t.get_device_module("hpu")
t.get_device_module("foo")
t.Stream()
t.Stream("cuda")
t.Stream().query()
t.Stream() == t.Stream("cpu")
t.Stream().record_event()
t.Stream().wait_stream(t.Stream())
t.Event()
t.Event("cuda")
t.Event().query()
t.Event().record()
t.Event().elapsed_time(t.Event())
t.Event(enable_timing=True).elapsed_time(t.Event(enable_timing=True))
"""

CHECKS = """
t._check(True)
t._check(False)
t._check(False, lambda: "abc")
t._check_with(ValueError, False, lambda: "hi")
t._check_index(False)
t._check_value(False)
t._check_type(False)
t._check_not_implemented(False)
t._check_tensor_all(t.tensor([True, False]))
t._check_tensor_all(t.tensor([1, 0]))
t._assert_async(t.tensor(0))
t._assert_async(t.tensor(0), "msg")
t._assert_async(t.tensor(1))
t.sym_int(-2.5)
t.sym_float(2)
t.sym_max(1, 2.5)
t.sym_max(True, 2)
t.sym_min(1.0, 2)
t.sym_not(3)
t.sym_ite(True, 1, 2)
t.sym_sum([1, 2])
t.SymInt
isinstance(3, t.SymInt)
t.types.Number
t.types.__all__
t.torch is t
t.sparse_coo
t.ones(1).layout == t.sparse_csr
t._C._get_tracing_state()
t._C._is_tracing()
t._C._log_api_usage_once("x")
t._C._get_default_device()
t._C._are_functorch_transforms_active()
t._C._functorch.is_batchedtensor(t.ones(1))
t._C._distributed_rpc._is_current_rpc_agent_set()
t._C._nn.gelu(t.ones(2))
t._cast_Long(t.ones(2))
t._cast_Half(t.ones(2))
t._shape_as_tensor(t.ones(2, 3))
t._convert_indices_from_coo_to_csr(t.tensor([0, 0, 2]), 3)
t._convert_indices_from_coo_to_csr(t.tensor([0, 0, 2]), 3, out_int32=True)
t._convert_indices_from_csr_to_coo(t.tensor([0, 2, 3]), t.tensor([1, 0, 1]))
t._convert_indices_from_csr_to_coo(t.tensor([0, 2, 3]), t.tensor([1, 0, 1]), transpose=True)
t.triangular_solve(t.ones(2, 1), t.tensor([[2.0, 1.0], [0.0, 4.0]]))
t.triangular_solve(t.ones(2, 1), t.tensor([[2.0, 1.0], [3.0, 4.0]]), upper=False, transpose=True)
t.embedding_bag(t.eye(5), t.tensor([0, 1, 4, 2]), t.tensor([0, 2]), False, 0)[0]
t.embedding_bag(t.eye(5), t.tensor([0, 1, 4, 2]), t.tensor([0, 2]), False, 1)[:3]
t.embedding_bag(t.eye(5), t.tensor([1, 4, 2]), t.tensor([0, 1, 3]), False, 1, False, None, True)[:3]
t.embedding_bag(t.eye(5), t.tensor([0, 1, 4, 2]), t.tensor([0, 2]), False, 2)[0]
t.embedding_renorm_(t.tensor([[3.0, 4.0], [6.0, 8.0]]), t.tensor([1]), 5.0, 2.0)
t.conv_tbc(t.arange(24.0).view(4, 2, 3), t.ones(3, 3, 2), t.arange(2.0), 1)
t.grid_sampler(t.arange(4.0).view(1, 1, 2, 2), t.full((1, 1, 2, 2), 0.3), 0, 1, True)
t.grid_sampler_2d(t.arange(4.0).view(1, 1, 2, 2), t.full((1, 1, 2, 2), 0.3), 2, 0, False)
t.grid_sampler_3d(t.arange(8.0).view(1, 1, 2, 2, 2), t.full((1, 1, 2, 2, 3), 0.3), 0, 2, False)
t.affine_grid_generator(t.eye(2, 3)[None], (1, 1, 2, 3), False)
t.max_pool1d_with_indices(t.tensor([[1.0, 4.0, 2.0, 0.0]]), 2)
t.native_layer_norm(t.arange(6.0).view(2, 3), (3,), t.arange(3.0), t.ones(3), 1e-3)
t.native_group_norm(t.arange(24.0).view(2, 4, 3), t.arange(4.0), None, 2, 4, 3, 2, 1e-3)
t.native_batch_norm(t.arange(6.0).view(2, 3), None, t.arange(3.0), None, None, True, 0.1, 1e-3)
t.native_batch_norm(t.arange(6.0).view(2, 3), None, None, t.ones(3), t.ones(3), False, 0.1, 1e-3)
t.native_dropout(t.ones(3), 0.5, False)
t.native_channel_shuffle(t.arange(4.0).view(1, 4, 1), 2)
t.dropout_(t.ones(2), 1.0, True)
t.alpha_dropout_(t.ones(2), 0.5, False)
t.feature_dropout_(t.ones(1, 2, 1), 1.0, True)
t.feature_alpha_dropout_(t.ones(1, 2, 1), 0.5, False)
t.cosine_embedding_loss(t.eye(2), t.ones(2, 2), t.tensor([1, -1]), 0.1, 0)
t.hinge_embedding_loss(t.arange(2.0), t.tensor([1.0, -1.0]), 0.5, 2)
t.margin_ranking_loss(t.arange(2.0), t.ones(2), t.tensor([1.0, -1.0]), 0.5, 2)
t.poisson_nll_loss(t.arange(2.0), t.ones(2), False, True, 1e-8, 1)
t.triplet_margin_loss(t.eye(2), t.ones(2, 2), t.zeros(2, 2), 1.0, 1.0, 1e-6, True, 0)
t.ctc_loss(t.full((4, 1, 3), 1 / 3).log(), t.tensor([[1, 2]]), (4,), (2,), 0, 2)
t.lstm(t.ones(5, 2, 3), [t.ones(2, 2, 3)]*2, [t.eye(12, 3)] * 4, False, 1, 0.0, False, True, False)
t.gru(t.ones(5, 3), t.tensor([3, 2]), t.ones(1, 3, 3), [t.eye(9, 3)]*2, False, 1, 0.0, False, False)
t._VF.rnn_tanh(t.ones(2, 5, 3), t.ones(1, 2, 3), [t.eye(3)] * 2, False, 1, 0.0, False, False, True)
t.rnn_relu(t.ones(1, 2, 4), t.ones(1, 2, 3), [t.eye(3, 4)], False, 1, 0.0, False, False, False)
t.hash_tensor(t.arange(7.0).view(7, 1) / 3)
t.hash_tensor(t.arange(24).view(2, 3, 4), (0, 2), keepdim=True)
t.hash_tensor(t.tensor([[-1, 5], [7, 300]], dtype=t.int16), 1)
t.hash_tensor(t.ones(2, 0, 3), 1)
t.hash_tensor(t.tensor(2.5, dtype=t.bfloat16))
t.ones(2)[t.newaxis].shape
t.legacy_contiguous_format
t.get_autocast_gpu_dtype()
t.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
(t.manual_seed(1), t.testing.make_tensor(4, dtype=t.float32, device="cpu", low=2, high=3))[1]
t.testing.make_tensor(3, 4, dtype=t.int16, device="cpu", noncontiguous=True).stride()
t.testing.make_tensor((9,), dtype=t.uint8, device="cpu", low=-4, high=1.5, exclude_zero=True)
t.testing.make_tensor((4,), dtype=t.complex64, device="cpu", requires_grad=True).requires_grad
t.nn.functional.linear_cross_entropy(t.eye(3), t.ones(4, 3), t.tensor([0, 3, 1]), reduction="none")
t.nn.functional.linear_cross_entropy(t.ones(3), t.eye(4, 3), t.tensor(1), linear_bias=t.ones(4))
t.nn.functional.linear_cross_entropy(t.eye(2), t.ones(3, 5, 2), t.ones(2, 5).long())
t.nn.functional.linear_cross_entropy(t.eye(2), t.ones(3, 2), t.eye(2, 3), label_smoothing=0.1)
t.nn.LinearCrossEntropyLoss(5, 10, out_features=(4, 3), bias=True)
t.classes.foo.bar
t.futures.__all__
t._utils._get_device_index(0)
t._utils._get_device_index("cpu")
t._utils._get_device_index("cpu", allow_cpu=True)
t._utils._flatten_dense_tensors([t.ones(2, 2), t.zeros(1)])
t._utils._unflatten_dense_tensors(t.arange(3.0), [t.ones(2, 1), t.ones(1)])
t._utils._element_size(t.float16)
t._utils._get_all_device_indices()
t.onnx.is_in_onnx_export()
t.distributed.is_available()
t.hub.HASH_REGEX.pattern
t.hub.urlparse("https://a.b/c-12ab.pth").path
t.autograd.forward_ad.unpack_dual(t.ones(1)).tangent
t.nn.modules.transformer._get_activation_fn("gelu")(t.ones(1)).shape
t.ones(2)._cdata == t.ones(2)._cdata
type(t.ones(2)._cdata)
t.Size([1, 2]) * 2
2 * t.Size([1, 2])
(3,) + t.Size([1, 2])
sum([t.Size([1]), t.Size([2])], ())
t.Size([1]) * 1.5
t.GradScaler("cpu", enabled=False).is_enabled()
t._softmax_backward_data(t.tensor([1.0, 0.0]), t.tensor([0.25, 0.75]), 0, t.float32)
t._weight_norm(t.tensor([[3.0, 4.0]]), t.tensor([[2.0]]), 0)
t.nn.functional._Reduction.get_enum("sum")
t.nn.functional._Reduction.get_enum("most")
m(t, "fx.proxy").GraphAppendingTracer.__name__
str(m(t, "fx.node").Target)
t.nn.functional._Reduction.legacy_get_string(False, None)
t.nn.functional._pair(3)
t.nn.functional.has_torch_function_unary(t.ones(1))
t.nn.NLLLoss2d()(t.zeros(1, 2, 1, 1), t.zeros(1, 1, 1).long())
issubclass(t.nn.Dropout2d, t.nn.modules.dropout._DropoutNd)
issubclass(t.nn.ReflectionPad2d, t.nn.modules.padding._ReflectionPadNd)
t.nn.modules.rnn.apply_permutation(t.tensor([[1, 2]]), t.tensor([1, 0]))
t.nn.modules.rnn.PackedSequence is t.nn.utils.rnn.PackedSequence
t.nn.ReplicationPad1d(1)(t.ones(1, 2))
m(t, "autograd.function").InplaceFunction(True).inplace
m(t, "utils.checkpoint").detach_variable((t.ones(1, requires_grad=True) * 2, 3))
m(t, "utils.checkpoint").detach_variable(3)
t.func.replace_all_batch_norm_modules_(t.nn.Sequential(t.nn.BatchNorm1d(2)))[0].running_var
t.types._dtype is t.dtype
t.hub.tqdm.__name__
t._C._infer_size(t.Size([1, 3]), t.Size([2, 1]))
issubclass(t.Tensor, t._C.TensorBase)
t._C._LinAlgError is t.linalg.LinAlgError
t._C.device("cpu")
t.autograd.grad_mode.no_grad is t.no_grad
m(t, "nn.parallel.data_parallel").DataParallel is t.nn.DataParallel
m(t, "nn.parallel.replicate").replicate is t.nn.parallel.replicate
m(t, "nn.parallel.parallel_apply").parallel_apply is t.nn.parallel.parallel_apply
t.nn.parallel.replicate(t.nn.Linear(2, 1), [])
m(t, "cuda.amp.grad_scaler").GradScaler is t.cuda.amp.GradScaler
m(t, "fx.subgraph_rewriter").replace_pattern is t.fx.replace_pattern
callable(t.nn.parallel.data_parallel)
m(t, "fx.experimental.proxy_tensor").get_proxy_mode()
m(t, "jit.annotations").List
m(t, "distributions.transforms")._clipped_sigmoid(t.zeros(1))
m(t, "_tensor_str").PRINT_OPTS.threshold
m(t, "_tensor_str").PRINT_OPTS.sci_mode
m(t, "_tensor_str")._tensor_str(t.ones(2, 2), 3)
m(t, "_tensor_str")._tensor_str(t.tensor([1.5], dtype=t.float64), indent=0)
"""
LISTS = """
t.utils.hooks.__name__.partition(".")[2]
t.hub._get_torch_home()
t.serialization.DEFAULT_PROTOCOL
t._foreach_add(a, a)
t._foreach_add(a, [1, 2])
t._foreach_add(a, a, alpha=2)
t._foreach_add(a, t.tensor(3))
t._foreach_add(a, [a[0]])
t._foreach_add([], 1)
t._foreach_sub(a, 1)
t._foreach_mul(a, a)
t._foreach_norm(a)
t._foreach_norm(a, 1)
t._foreach_max(a)
t._foreach_lerp(a, a, 0.5)
t._foreach_addcmul(a, a, a, value=2)
t._foreach_addcmul(a, a, a, [1, 2])
t._foreach_addcdiv(a, a, a, t.tensor([1.0, 2.0]))
t._foreach_pow(2, a)
t._foreach_pow(a, a)
t._foreach_clamp_min(a, 3)
t._foreach_maximum(a, a)
t._foreach_sqrt(a)
t._foreach_neg_(a)
t._foreach_add_(a, 1)
t._foreach_copy_(a, [t.ones(2), t.ones(1)])
t._foreach_zero_(a)
"""

DISTRIBUTED = """
d.ReduceOp.RedOpType.SUM == d.ReduceOp.SUM
d.get_rank()
d.get_world_size()
d.get_backend()
d.is_initialized()
d.all_reduce(x)
d.all_reduce(x, async_op=True).wait()
d.all_reduce(3)
d.broadcast(x, 0)
d.broadcast(x, 1)
d.all_gather([y], x), y
d.all_gather_into_tensor(y, x), y
d.gather(x, [y]), y
d.scatter(y, [x]), y
d.reduce(x, 0), x
d.reduce_scatter(y, [x]), y
d.reduce_scatter_tensor(y, x), y
d.all_to_all([y], [x]), y
d.all_to_all_single(y, x), y
d.all_gather_object(o, 3), o
d.broadcast_object_list([1], 0)
d.gather_object(1, o), o
d.scatter_object_list(o, [5]), o
d.send(x, 0)
d.barrier()
d.new_group([0, 1])
d.get_world_size(d.new_group([0]))
d.get_process_group_ranks(d.group.WORLD)
d.get_global_rank(d.group.WORLD, 0)
d.init_process_group("gloo")
"""

WITHOUT_GROUP = """
d.is_available()
d.is_initialized()
d.is_nccl_available()
d.is_gloo_available()
d.is_torchelastic_launched()
d.get_rank()
d.all_reduce(t.ones(2))
d.barrier()
d.destroy_process_group()
d.init_process_group("gloo")
d.init_process_group("nccl", rank=0, world_size=1, store=d.HashStore())
d.group.WORLD
t.nn.parallel.DistributedDataParallel(t.nn.Linear(1, 1))
"""

FUTURES = """
f(3).value()
f(3).wait()
f(3).done()
f(3).set_result(4)
f(3).then(lambda x: x.wait() + 1).wait()
f(3).set_exception(3)
t.futures.Future().done()
t.futures.wait_all([f(1), f(2)])
[x.value() for x in t.futures.collect_all([f(1), f(2)]).wait()]
t.futures.Future(devices=["cuda"])
"""


def lines(text):
    return text.strip().split("\n")


def answer(expression, names):
    """What an expression gives: (None, its text), or (exception's type, its text)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = eval(expression, names)  # noqa: S307
        except Exception as error:
            return type(error), str(error)
    return None, repr(value).replace("weft.", "torch.").replace("torch.base.symbols", "torch")


def same(ours, theirs):
    kind, text = theirs
    assert ours[0] is kind, (ours, theirs)
    if kind is None:
        assert ours[1] == text
    else:  # the sentence that people search for, in our words or alone
        sentence = text.split("\n")[0].split(". (Could this")[0].split(". Ensure that you have")[0]
        assert sentence.rstrip(".") in ours[1], (ours, theirs)


@pytest.mark.parametrize("expression", lines(DEVICES) + lines(CHECKS))
def test_names_answer_as_pytorchs(torch, expression):
    def module(t, path):
        return importlib.import_module(f"{t.__name__}.{path}")

    ours, theirs = (answer(expression, {"t": t, "m": module}) for t in (weft, torch))
    same(ours, theirs)


@pytest.mark.parametrize("expression", lines(LISTS))
def test_calls_for_lists(torch, expression):
    ours, theirs = ({"t": t, "a": [t.tensor([1.0, 4.0]), t.tensor([2.0])]} for t in (weft, torch))
    same(answer(expression, ours), answer(expression, theirs))
    same(answer("a", ours), answer("a", theirs))


@pytest.mark.parametrize("expression", lines(FUTURES))
def test_futures(torch, expression):
    def of(t):
        def made(value):
            future = t.futures.Future()
            future.set_result(value)
            return future

        return {"t": t, "f": made}

    same(answer(expression, of(weft)), answer(expression, of(torch)))


def test_a_future_waits_for_another_thread():
    later = weft.futures.Future()
    seen = []
    later.add_done_callback(lambda f: seen.append(f.value()))
    failed = later.then(lambda f: 1 / 0)
    thread = threading.Timer(0.02, later.set_result, [5])
    thread.start()
    assert later.wait() == 5
    thread.join()
    assert seen == [5]
    with pytest.raises(RuntimeError, match="running the callback: ZeroDivisionError"):
        failed.wait()


@pytest.fixture
def environment(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("expression", lines(WITHOUT_GROUP))
def test_without_a_group(torch, environment, expression):
    ours, theirs = (
        answer(expression, {"t": t, "d": __import__(f"{t.__name__}.distributed").distributed})
        for t in (weft, torch)
    )
    same(ours, theirs)


@pytest.fixture
def groups(torch, environment):
    import torch.distributed as theirs

    both = (weft.distributed, theirs)
    for d in both:
        d.init_process_group("gloo", rank=0, world_size=1, store=d.HashStore())
    yield both
    for d in both:
        d.destroy_process_group()
        assert not d.is_initialized()


def test_a_group_of_one(torch, groups):
    for expression in lines(DISTRIBUTED):
        ours, theirs = (
            {"t": t, "d": d, "x": t.tensor([1.0, 2.0]), "y": t.zeros(2), "o": [None]}
            for t, d in zip((weft, torch), groups)
        )
        same(answer(expression, ours), answer(expression, theirs))


def test_a_world_of_several_is_refused(environment, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="an MPI launch for a world of 2"):
        weft.distributed.init_process_group("gloo")
    assert not weft.distributed.is_initialized()


def test_a_distributed_module_is_its_module(torch, groups):
    for t in (weft, torch):
        t.manual_seed(0)
    nets = [t.nn.parallel.DistributedDataParallel(t.nn.Linear(2, 1)) for t in (weft, torch)]
    assert list(nets[0].state_dict()) == list(nets[1].state_dict())
    for net, t in zip(nets, (weft, torch)):
        with net.no_sync():
            net(t.ones(3, 2)).sum().backward()
    assert nets[0].module.weight.grad.tolist() == nets[1].module.weight.grad.tolist()
    with pytest.raises(RuntimeError, match="any parameter that requires a gradient"):
        weft.nn.parallel.DistributedDataParallel(weft.nn.ReLU())


def test_batch_norms_of_several_processes(torch):
    outs = []
    for t in (weft, torch):
        t.manual_seed(0)
        net = t.nn.Sequential(t.nn.Conv2d(1, 2, 3), t.nn.BatchNorm2d(2))
        new = t.nn.SyncBatchNorm.convert_sync_batchnorm(net)
        assert isinstance(new[1], t.nn.SyncBatchNorm)
        assert isinstance(t.nn.SyncBatchNorm.convert_sync_batchnorm(net[1]), t.nn.SyncBatchNorm)
        outs.append((repr(new), new(t.randn(2, 1, 4, 4)).tolist(), list(new.state_dict())))
        with pytest.raises(ValueError, match="expected at least 2D input"):
            t.nn.SyncBatchNorm(2)(t.ones(2))
    assert outs[0][0] == outs[1][0] and outs[0][2] == outs[1][2]
    weft.testing.assert_close(weft.tensor(outs[0][1]), weft.tensor(outs[1][1]))


def test_parts_for_devices():
    net = weft.nn.parallel
    x = {"a": weft.arange(4.0), "b": (3, weft.ones(4))}
    parts = net.scatter(x, ["cpu", "cpu"])
    assert parts[1]["a"].tolist() == [2, 3] and parts[0]["b"][0] == 3
    whole = net.gather([p["a"] for p in parts], "cpu")
    assert whole.tolist() == [0, 1, 2, 3]
    with pytest.raises(AssertionError, match="CUDA"):
        net.scatter(x, [weft.device("cuda")])


@pytest.mark.parametrize("scramble", [False, True])
@pytest.mark.parametrize("dimension", [1, 2, 7, 300])
def test_sobol_points_are_pytorchs(torch, dimension, scramble):
    from torch.quasirandom import SobolEngine

    a = SobolEngine(dimension, scramble=scramble, seed=5)
    b = weft.quasirandom.SobolEngine(dimension, scramble=scramble, seed=5)
    assert repr(a) == repr(b)
    for n in (1, 5, 8):
        assert a.draw(n).tolist() == b.draw(n).tolist()
    a.fast_forward(13), b.fast_forward(13)
    assert a.draw(4, dtype=torch.float64).tolist() == b.draw(4, dtype=weft.float64).tolist()
    assert a.reset().draw_base2(3).tolist() == b.reset().draw_base2(3).tolist()
    with pytest.raises(ValueError, match="The balance properties of Sobol' points"):
        b.draw_base2(4)
    with pytest.raises(ValueError, match="Supported range of dimensionality"):
        weft.quasirandom.SobolEngine(0)


def test_hub_loads_from_a_folder(tmp_path, monkeypatch):
    (tmp_path / "parts.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "hubconf.py").write_text(
        "dependencies = ['json']\nfrom parts import double\n"
        "def net(n, scale=1):\n    'A net.'\n    return double(n) * scale\n_hidden = net\n"
    )
    monkeypatch.delitem(sys.modules, "parts", raising=False)
    hub, path = weft.hub, str(tmp_path)
    assert hub.load(path, "net", 3, scale=2, source="local") == 12
    assert set(hub.list(path, source="local")) == {"double", "net"}
    assert hub.help(path, "net", source="local") == "A net."
    assert path not in sys.path
    with pytest.raises(RuntimeError, match="Cannot find callable nothing in hubconf"):
        hub.load(path, "nothing", source="local")
    with pytest.raises(ValueError, match='Unknown source: "x"'):
        hub.load(path, "net", source="x")
    with pytest.raises(RuntimeError, match="source='local'"):
        hub.load("someone/something", "net")


def test_state_dicts_of_a_url_are_kept(tmp_path, monkeypatch, capsys):
    import hashlib

    weft.save({"w": weft.ones(2)}, tmp_path / "a.pt")
    digest = hashlib.sha256((tmp_path / "a.pt").read_bytes()).hexdigest()
    named = tmp_path / f"a-{digest[:8]}.pt"
    (tmp_path / "a.pt").rename(named)
    monkeypatch.setattr("weft.hub._folder", str(tmp_path / "hub"))
    load = weft.hub.load_state_dict_from_url
    assert load(named.as_uri(), progress=False, check_hash=True)["w"].tolist() == [1, 1]
    named.unlink()
    assert load(named.as_uri())["w"].tolist() == [1, 1]
    wrong = tmp_path / "b-00000000.pt"
    wrong.write_bytes(b"x")
    with pytest.raises(RuntimeError, match="invalid hash value"):
        load(wrong.as_uri(), progress=False, check_hash=True)
    assert len(list((tmp_path / "hub" / "checkpoints").iterdir())) == 1


def test_annotations_with_streams():
    def f(stream: weft.cuda.Stream | None = None, event: "weft.cuda.Event | None" = None):
        return stream

    import typing

    assert typing.get_type_hints(f)["stream"] == weft.cuda.Stream | None
    assert "training" in typing.get_type_hints(weft.nn.Module)


def test_a_child_is_assigned_without_asking_for_it():
    """Assigning asked hasattr, and a __getattr__ that forwards to the child recursed."""

    class Wrapped(weft.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

    assert Wrapped(weft.nn.Linear(2, 3)).out_features == 3


def test_modules_of_the_core_are_importable():
    code = (
        "import weft\nfrom weft._C import _log_api_usage_once\nimport weft._C._nn\n"
        "from weft.cuda.amp import autocast\nfrom weft.cuda.streams import Stream\n"
        "from weft.distributed.distributed_c10d import _get_default_group\n"
        "from weft.nn.parallel.distributed import DistributedDataParallel\n"
        "from weft.nn.parallel.scatter_gather import scatter\nfrom weft.types import Device\n"
        "from weft._utils import ExceptionWrapper\nimport weft._inductor.config\n"
        "from weft._subclasses.fake_tensor import is_fake\nfrom weft import torch\n"
        "import weft.__config__ as c\nassert 'C++' in c.show() and c.parallel_info()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


TREES = [
    {"a": 1, "b": (2, [3]), "c": None},
    collections.OrderedDict(a=1, b=[]),
    collections.defaultdict(list, a=[1]),
    collections.deque([1, 2], maxlen=3),
    3,
    (),
]
TREE_CALLS = """
p.tree_flatten(x)
p.tree_structure(x).num_leaves, p.tree_structure(x).num_nodes, p.tree_structure(x).num_children
p.tree_leaves(x)
p.tree_map(str, x)
p.tree_map_only(int, lambda v: v + 1, x)
p.tree_map_only(lambda v: v == 2, lambda v: v + 1, x)
p.tree_leaves_with_path(x)
[p.keystr(k) for k, _ in p.tree_leaves_with_path(x)]
p.tree_map_with_path(lambda k, v: (p.keystr(k), v), x)
p.tree_any(lambda v: v == 2, x)
p.tree_all_only(int, lambda v: v > 1, x)
p._broadcast_to_and_flatten(1, p.tree_structure(x))
p._broadcast_to_and_flatten([1], p.tree_structure(x))
p.tree_unflatten(range(p.tree_structure(x).num_leaves), p.tree_structure(x))
p.tree_unflatten([1] * 9, p.tree_structure(x))
p.treespec_loads(p.treespec_dumps(p.tree_structure(x)))
p.treespec_pprint(p.tree_structure(x))
p.tree_structure(x).children_specs
p.tree_structure(x) == p.tree_structure(x)
hash(p.tree_structure(x)) == hash(p.tree_structure(x))
p.tree_structure(x).is_leaf()
p.tree_is_leaf(x)
p.tree_flatten(x, is_leaf=lambda v: isinstance(v, list))
p.tree_map(lambda a, b: (a, b), x, x)
p.tree_map(lambda a, b: a, [1], x)
p.tree_map(lambda a, b: a, {"q": 1}, x)
p.arg_tree_leaves(x, k=x)
p._get_node_type(x)
"""


@pytest.mark.parametrize("expression", lines(TREE_CALLS))
def test_trees(torch, expression):
    import torch.utils._pytree as theirs

    import weft.utils._pytree as ours

    for x in TREES:
        same(answer(expression, {"p": ours, "x": x}), answer(expression, {"p": theirs, "x": x}))


def test_types_can_be_made_containers(torch):
    import torch.utils._pytree as theirs

    import weft.utils._pytree as ours

    for p in (theirs, ours):

        class Pair:
            def __init__(self, a, b):
                self.a, self.b = a, b

        p.register_pytree_node(
            Pair, lambda x: ([x.a, x.b], "ctx"), lambda v, c: Pair(*v),
            serialized_type_name="Pair",
            flatten_with_keys_fn=lambda x: ([(p.GetAttrKey("a"), x.a), (p.GetAttrKey("b"), x.b)],
                                            "ctx"),
        )  # fmt: skip
        leaves, spec = p.tree_flatten(Pair(1, [2]))
        assert leaves == [1, 2] and "TreeSpec(Pair, ctx" in repr(spec)
        assert p.tree_unflatten([3, 4], spec).b == [4]
        assert [p.keystr(k) for k, _ in p.tree_leaves_with_path(Pair(1, [2]))] == [".a", ".b[0]"]
        assert p.treespec_loads(p.treespec_dumps(spec)) == spec
        with pytest.raises(ValueError, match="is already registered as pytree node"):
            p.register_pytree_node(Pair, None, None)
    Point = collections.namedtuple("Point", "x y")
    assert ours.tree_map(lambda v: v + 1, Point(1, 2)) == Point(2, 3)
    top = ours.tree_map(lambda v: v.sum(), weft.ones(2, 3).max(0))
    assert top.values.item() == 3


def test_arguments_of_to_are_sorted_out_as_pytorch_does(torch):
    texts = ["'cpu'", "t.float16", "t.ones(1)", "'cpu', t.half, True", "device='cpu', dtype=t.int8",
             "t.half, memory_format=t.channels_last"]  # fmt: skip
    for text in texts:
        found = [repr(eval(f"t._C._nn._parse_to({text})", {"t": t})) for t in (torch, weft)]  # noqa: S307
        assert found[0] == found[1]


def test_mapped_indices_take_elements_inside_the_scope_for_them_and_outside():
    from weft._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    mask = weft.tensor([[True, False], [True, True]])
    at = weft.arange(2)
    both = weft.vmap(weft.vmap(lambda b, q: mask[b, q], (None, 0)), (0, None))
    with TransformGetItemToIndex():
        assert weft.equal(both(at, at), mask)
    assert weft.equal(both(at, at), mask)

"""Tensors in memory that processes share."""

import gc
import os
import subprocess
import sys
import textwrap

import pytest

import weft

mp = weft.multiprocessing


def _add(i, t):
    t[i] += i + 1


def _fail(i):
    if i == 1:
        raise ValueError("boom")


def _train(model, done, received):
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (model(weft.ones(1, 2)) - 3).pow(2).sum().backward()
        optimizer.step()
    done.put([p.detach() for p in model.parameters()])
    received.wait(60)  # a process that ends waits for 5 s, which a starved machine may take


def test_a_shared_tensor_is_written_by_children():
    t = weft.zeros(3, dtype=weft.float64)
    view = t[1:]
    assert not t.is_shared()
    assert t.share_memory_() is t and t.is_shared() and t[1:].is_shared()
    assert not view.is_shared()
    context = mp.get_context("fork")
    children = [context.Process(target=_add, args=(i, t)) for i in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert t.tolist() == [1, 2, 3]


def test_a_model_trains_in_another_process():
    """Hogwild: the child's steps are seen here, under the same Parameter objects."""
    model = weft.nn.Linear(2, 1)
    weight, before = model.weight, model.weight.detach().clone()
    model.share_memory()
    context = mp.get_context("fork")
    done, received = context.Queue(), context.Event()
    child = context.Process(target=_train, args=(model, done, received))
    child.start()
    sent = done.get(timeout=60)
    received.set()
    assert model.weight is weight and weight.is_shared() and weight.requires_grad
    assert (weight != before).any() and weft.equal(sent[0], weight.detach())
    sent[0].zero_()
    assert weight.abs().sum() == 0
    child.join()
    assert child.exitcode == 0


def test_what_is_sent_is_shared_whatever_its_layout():
    context = mp.get_context("fork")
    here, there = context.Pipe()
    t = weft.arange(6).reshape(2, 3).T
    for value in (t, weft.tensor(2.5), weft.empty(0, 3), weft.nn.Parameter(weft.ones(2)),
                  weft.tensor([1 + 2j]), weft.ones(2, dtype=weft.bfloat16)):  # fmt: skip
        here.send(value)
        got = there.recv()
        assert weft.equal(got, value) and got.dtype is value.dtype and type(got) is type(value)
        assert got.stride() == value.stride() and got.requires_grad == value.requires_grad
        assert got.is_shared() and value.is_shared()
    here.send(t)
    there.recv()[0, 0] = 9
    assert t[0, 0] == 9
    with pytest.raises(RuntimeError, match="Cowardly"):
        here.send(weft.ones(1, requires_grad=True) * 2)


def test_descriptors_close_with_their_tensors():
    gc.collect()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    tensors = [weft.ones(4).share_memory_() for _ in range(5)]
    del tensors
    gc.collect()
    assert not before or len(os.listdir("/proc/self/fd")) == before


def test_spawn_runs_a_function_in_fresh_interpreters(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent("""
        import weft
        import weft.multiprocessing as mp

        def add(i, t):
            t[i] += i + 1

        if __name__ == "__main__":
            t = weft.zeros(2).share_memory_()
            mp.spawn(add, args=(t,), nprocs=2)
            print(t.tolist())
    """)
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert run.stdout == "[1.0, 2.0]\n", run.stderr


def test_a_tensor_that_lives_to_the_exit_closes_its_memory_quietly(tmp_path):
    # The mapping asked the module `os`, which had been emptied by then.
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent("""
        import weft
        t = weft.zeros(2).share_memory_()
        import weft.multiprocessing as mp

        def add(t):
            t.add_(1)

        if __name__ == "__main__":
            mp.set_start_method("spawn")
            p = mp.Process(target=add, args=(t,))
            p.start()
            p.join()
            print(t.tolist())
    """)
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert (run.stdout, run.stderr) == ("[1.0, 1.0]\n", "")


def test_the_first_failure_ends_the_others():
    with pytest.raises(mp.ProcessRaisedException, match="boom") as caught:
        mp.start_processes(_fail, nprocs=2, start_method="fork")
    assert caught.value.error_index == 1
    with pytest.raises(mp.ProcessExitedException) as caught:
        mp.start_processes(_end, nprocs=1, start_method="fork")
    assert caught.value.exit_code == 7


def _end(i):
    os._exit(7)


def test_a_storage_tells_its_memory():
    t = weft.arange(6, dtype=weft.float32)
    part = t[2:4]
    assert part.untyped_storage().data_ptr() == t.untyped_storage().data_ptr() == t.data_ptr()
    assert part.untyped_storage() == t.untyped_storage() != weft.ones(6).untyped_storage()
    assert part.untyped_storage().nbytes() == 24 and len(part.storage()) == 6
    assert part.storage().tolist() == t.tolist() and part.storage()[1] == 1.0
    part.storage()[0] = 5
    assert t[0] == 5
    assert not t.untyped_storage().is_shared()
    assert t.untyped_storage().share_memory_().is_shared()

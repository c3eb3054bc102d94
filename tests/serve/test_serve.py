"""`weft serve` as its clients see it: a server in a process of its own, on a free port."""

import contextlib
import http.client
import json
import queue
import signal
import socket
import subprocess
import sys
import threading
import types

import pytest
from served_programs import Served

import weft
from weft.serve.batches import Batches

pytest.importorskip("uvicorn")


class Server:
    def __init__(self, file, *options):
        command = [sys.executable, "-u", "-m", "weft", "serve", str(file), "--port", "0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rpartition(":")[2])

    def ask(self, path, body=None, method=None):
        """Status, JSON and headers of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        connection.request(method or ("GET" if body is None else "POST"), path, body)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if text else None, dict(answer.getheaders())

    def call(self, entry, *args, **kwargs):
        """The result, or the error."""
        status, told, _ = self.ask(f"/{entry}", {"args": args, "kwargs": kwargs})
        return told["result"] if status == 200 else (status, told["error"])

    def at_once(self, calls):
        """The results of calls in threads, by the order of the calls."""
        results = [None] * len(calls)

        def run(i):
            try:
                results[i] = self.call(*calls[i])
            except Exception as e:
                results[i] = e

        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
        for thread in threads:
            thread.start()
        return threads, results

    def under_way(self):
        return self.ask("/health")[1]["under_way"]

    def wait_for(self, under_way):
        """Asks until so many requests are under way."""
        while self.under_way() != under_way:
            assert self.process.poll() is None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "program.weft"
    weft.jit.save(weft.jit.script(Served()), path)
    return path


@pytest.fixture
def serve(file):
    started = []

    def start(*options, file=file):
        started.append(Server(file, *options))
        return started[-1]

    yield start
    for server in started:
        server.process.kill()
        server.process.wait()
        server.process.stdout.close()


@pytest.fixture(scope="module")
def server(file):
    server = Server(file, "--limit", "1", "--timeout", "0.5")
    yield server
    assert server.stop() == 0
    server.process.stdout.close()


def tensor(value, dtype="float32", **more):
    return {"tensor": value, "dtype": dtype, **more}


LONG = 10**9  # turns that no test waits for
MANY = 100  # requests of a second each: one behind the other, no client waits for the last

ECHOED = [
    1, 1.5, True, None, "text", "NaN", "\\NaN", [1, [2.5, "a"]], {"a": [1]},
    tensor(1.5), tensor([[1.5, "NaN"], ["Infinity", "-Infinity"]]), tensor([1, 2], "int64"),
    tensor([True, False], "bool"), tensor([[1.0, 2.0]], "complex64"), tensor([0.5], "bfloat16"),
    tensor([], shape=[0]), tensor([], "int32", shape=[0, 3]), {"k": tensor([1.0], "float64")},
    {"dict": {"tensor": 1}}, {"dict": {"tuple": [tensor([1.0])]}},
]  # fmt: skip


@pytest.mark.parametrize("value", ECHOED, ids=str)
def test_values_come_back_as_they_went(server, value):
    assert server.call("echo", value) == value


def test_tuples_go_as_a_form_and_come_back_as_lists(server):
    assert server.call("kind", {"tuple": [1]}) == "tuple"
    assert server.call("kind", {"dict": {"tuple": [1]}}) == "dict"
    assert server.call("echo", {"tuple": [1, 2]}) == [1, 2]


def test_texts_that_look_like_numbers_have_a_form(server):
    assert [server.call("words", text) for text in ("\\NaN", "\\Infinity", "Inf", "nan")] == [1] * 4
    assert server.call("words", "NaN")[0] == 422  # that is the number


def test_keys_are_their_texts(server):
    """Of two with the same one the last was sent."""
    assert server.call("keyed", -1) == {"1": -1, "2.5": -1}
    status, told = server.call("keyed", 1)
    assert status == 500 and "keys of different text" in told["message"]


def test_a_named_tuple_comes_back_as_its_fields(server, file):
    program = weft.jit.load(file)
    told = server.call("forward", tensor([1.0, 2.0]), steps=3)
    out = program(weft.tensor([1.0, 2.0]), 3)[0]
    assert told == {"out": tensor(out.tolist()), "steps": 3}


def test_requests_at_once_have_the_results_of_the_program(serve, file):
    program, server = weft.jit.load(file), serve("--wait", "50")
    trees = [[i, [i + 1, [2, 3]][: 1 + i % 2]] for i in range(20)]
    threads, results = server.at_once([("total", tree) for tree in trees])
    for thread in threads:
        thread.join()
    for tree, told in zip(trees, results):
        assert told["tensor"] == pytest.approx(program.total(tree).item(), rel=1e-5)


def test_an_error_is_of_its_own_request(serve):
    """All of them run in one batch."""
    server = serve("--wait", "300")
    xs = [[1.0, 2.0], [1.0, 2.0, 3.0], [3.0, 4.0]] * 3
    threads, results = server.at_once([("forward", tensor(x)) for x in xs])
    for thread in threads:
        thread.join()
    for x, told in zip(xs, results):
        if len(x) == 2:
            assert told["steps"] == 1
        else:
            status, error = told
            assert (status, error["type"]) == (422, "RuntimeError")
            assert "served_programs.py:" in error["line"] and "Served.forward" in error["line"]


BAD = {
    "not JSON": b"{",
    "not text": b"\xff\xfe\xfd",
    "NaN without quotes": b'{"args": [NaN]}',
    "a number beyond floats": b'{"args": [1e999]}',
    "a tensor of numbers beyond floats": b'{"args": [{"tensor": [1.0, -1e999]}]}',
    "a list": [1],
    "another key": {"arguments": []},
    "args that are no list": {"args": 1},
    "kwargs that are no dict": {"kwargs": []},
    "too few": {},
    "too many": {"args": [1, 2, 3, 4]},
    "an unknown name": {"args": [1], "kwargs": {"other": 1}},
    "no tensor": {"args": ["a"]},
    "another shape": {"args": [tensor([1.0])]},
    "another dtype": {"args": [tensor([1, 2], "int64")]},
    "an unknown dtype": {"args": [tensor([1.0], "float3")]},
    "lists of unlike length": {"args": [tensor([[1.0], [1.0, 2.0]])]},
    "a shape that does not fit": {"args": [tensor([1.0], shape=[7])]},
    "a shape that is none": {"args": [tensor([1.0], shape="all")]},
    "a tuple that is none": {"args": [{"tuple": 1}]},
    "nested too deep": b'{"args": [' + b"[" * 100000 + b"]" * 100000 + b"]}",
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_bad_input_is_422(server, body):
    status, told, _ = server.ask("/forward", body)
    assert status == 422, told
    assert told["error"]["type"] and told["error"]["message"]
    assert server.call("echo", 1) == 1


def test_recursion_that_is_too_deep_is_422(server):
    tree = 1
    for _ in range(900):
        tree = [tree]
    status, error = server.call("total", tree)
    assert (status, error["type"]) == (422, "RecursionError")


def test_what_the_server_says_of_itself(server):
    status, told, _ = server.ask("/")
    assert status == 200 and told["name"] == "Served"
    assert set(told["entries"]) == {"forward", "echo", "total", "kind", "spin", "told", "heavy",
                                    "words", "keyed"}  # fmt: skip
    assert told["parameters"]["layer.weight"] == {"shape": [3, 2], "dtype": "float32"}
    assert server.ask("/health")[:2] == (200, {"under_way": 0})


def test_a_limit_that_nothing_fits_does_not_start(file):
    command = [sys.executable, "-m", "weft", "serve", str(file), "--port", "0", "--limit", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2 and "--limit" in ended.stderr


def test_other_paths_and_methods(server):
    assert server.ask("/other", {"args": []})[0] == 404
    assert server.ask("/forward")[0] == 405
    assert server.ask("/", method="HEAD")[:2] == (200, None)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_request_beyond_the_limit_is_413(server, chunked):
    body = b" " * 3_000_000
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/echo", iter([body]) if chunked else body, encode_chunked=chunked,
                       headers={"transfer-encoding": "chunked"} if chunked else {})  # fmt: skip
    assert connection.getresponse().status == 413
    connection.close()
    assert server.call("echo", 1) == 1


@pytest.mark.parametrize("path", ["/echo", "/other", "/health"])
def test_an_answer_does_not_wait_for_what_is_not_read(server, path):
    """A request that is announced with 100 terabytes was read for five seconds first."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=4) as connection:
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {10**14}\r\n\r\n{{".encode()
        )
        status = connection.recv(100).split()[1]
    assert status == {"/echo": b"413"}.get(path, b"404")
    assert server.call("echo", 1) == 1


def test_a_run_beyond_its_time_is_504(server):
    threads, results = server.at_once([("spin", tensor([1.0]), LONG), ("spin", tensor([1.0]), 2)])
    for thread in threads:
        thread.join()
    assert results[0][0] == 504 and results[1] == tensor([3.0])


def test_all_requests_of_a_batch_are_answered_in_time(serve):
    """Each of them ran alone with all the time there is, one behind the other."""
    server = serve("--timeout", "1", "--wait", "200", "--batch", "128")
    threads, results = server.at_once([("spin", tensor([1.0]), LONG)] * MANY)
    for thread in threads:
        thread.join()
    assert [status for status, _ in results] == [504] * MANY
    assert server.call("echo", 1) == 1


def test_an_operation_that_takes_long_is_504(serve):
    """It is not ended, so that the answer came behind it."""
    server = serve("--timeout", "0.2")
    status, error = server.call("heavy", 3000)
    assert (status, error["type"]) == (504, "TimeoutError")
    assert server.under_way() == 0
    while (told := server.call("echo", 1)) != 1:  # it waits for the operation, which ends
        assert told[0] == 504


def test_overload_is_503(serve):
    server = serve("--queue", "2", "--timeout", "1")
    threads, results = server.at_once([("spin", tensor([1.0]), LONG)] * 2)
    server.wait_for(2)
    status, told, headers = server.ask("/echo", {"args": [1]})
    assert status == 503 and "2 requests" in told["error"]["message"]
    assert headers["retry-after"] == "1"
    for thread in threads:
        thread.join()
    assert [status for status, _ in results] == [504, 504]
    assert server.call("echo", 1) == 1


def test_requests_of_clients_that_left_do_not_run(serve):
    server = serve("--timeout", "1", "--batch", "1")
    threads, results = server.at_once([("spin", tensor([1.0]), LONG)])
    server.wait_for(1)
    body = json.dumps({"args": [tensor([1.0]), LONG]}).encode()
    gone = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(MANY)]
    for connection in gone:
        connection.sendall(
            b"POST /spin HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
    server.wait_for(1 + MANY)
    for connection in gone:
        connection.close()
    server.wait_for(1)
    assert server.call("echo", 1) == 1
    threads[0].join()
    assert results[0][0] == 504


def test_a_run_whose_client_leaves_ends(serve):
    """With no limit of time; what ran with it has its answer."""
    server = serve("--wait", "200")
    for others in (0, 3):
        body = json.dumps({"args": [tensor([1.0]), LONG]}).encode()
        gone = socket.create_connection(("127.0.0.1", server.port))
        gone.sendall(
            b"POST /told HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
        threads, results = server.at_once([("told", tensor([1.0]), 2)] * others)
        server.wait_for(1 + others)
        assert server.process.stdout.readline() == "spins\n"  # the first of the batch runs
        assert server.under_way() == 1 + others
        gone.close()
        for thread in threads:
            thread.join()
        assert results == [tensor([3.0])] * others
        server.wait_for(0)
        assert server.call("echo", 1) == 1
    assert server.stop() == 0


def test_a_connection_closed_amid_its_request_is_let_go(server):
    for sent in (b"", b"POST /ec", b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{"):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(sent)
    server.wait_for(0)
    assert server.call("echo", 1) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_was_accepted_is_answered_before_the_end(serve, number):
    server = serve("--batch", "9", "--wait", "700")  # all eight are seen before they run
    threads, results = server.at_once([("spin", tensor([float(i)]), 20_000) for i in range(8)])
    server.wait_for(8)
    server.process.send_signal(number)
    assert server.process.wait(60) == 0
    for thread in threads:
        thread.join()
    assert results == [tensor([float(i + 20_000)]) for i in range(8)]
    with pytest.raises(ConnectionRefusedError):
        server.call("echo", 1)


def test_half_a_request_is_not_waited_for_at_the_end(serve):
    """SIGTERM waited for the rest, 30 seconds and 5, and answered that it had not arrived."""
    server = serve()
    body = b'{"args": [1]}'
    head = b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body)
    sent = {b"": b"", head[:20]: b"", head + body[:5]: b"HTTP/1.1 503"}
    connections = []
    for part in sent:
        connections.append(socket.create_connection(("127.0.0.1", server.port)))
        connections[-1].sendall(part)
    server.wait_for(1)
    assert server.stop() == 0
    for connection, begins in zip(connections, sent.values()):
        with connection:
            answer = b"".join(iter(lambda c=connection: c.recv(4096), b""))
        assert answer[:12] == begins
        assert (b"[serve] the server stops" in answer) == bool(begins)


def test_an_answer_that_nobody_reads_is_let_go_at_the_end(serve):
    """SIGTERM waited for its client, however long that was there."""
    server = serve()
    body = b'{"args": ["%s"]}' % (b"a" * 30_000_000)  # more than sockets hold
    head = b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head + body)
        assert connection.recv(12) == b"HTTP/1.1 200"
        threads, results = server.at_once([("spin", tensor([1.0]), 20_000)])
        server.wait_for(1)
        assert server.stop() == 0
        for thread in threads:
            thread.join()
        assert results == [tensor([20_001.0])]
        count = 0
        with contextlib.suppress(ConnectionResetError):
            while read := connection.recv(1 << 20):
                count += len(read)
        assert count < 30_000_000


def test_sizes_of_an_export_are_looked_at(serve, tmp_path):
    exported = weft.export.export(
        weft.nn.Linear(2, 2),
        (weft.ones(3, 2),),
        dynamic_shapes=({0: weft.export.Dim("n", max=4)},),
    )
    path = tmp_path / "linear.weft"
    weft.export.save(exported, path)
    server = serve(file=path)
    assert len(server.call("forward", tensor([[1.0, 2.0]] * 4))["tensor"]) == 4
    status, error = server.call("forward", tensor([[1.0, 2.0]] * 5))
    assert (status, error["type"]) == (422, "AssertionError")


@pytest.mark.parametrize("contents", [None, b"", b"something else"])
def test_a_file_that_is_no_program(tmp_path, contents):
    path = tmp_path / "program.weft"
    if contents is not None:
        path.write_bytes(contents)
    command = [sys.executable, "-m", "weft", "serve", str(path), "--port", "0"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1 and run.stderr.startswith("weft serve: ")
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("option", [("--port", "99999"), ("--batch", "0"), ("--timeout", "0")])
def test_options_out_of_their_range_are_a_line(option):
    """A port of 99999 was a traceback."""
    command = [sys.executable, "-m", "weft", "serve", "none.weft", *option]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"argument {option[0]}: expected" in done.stderr.splitlines()[-1]


def test_no_wait_for_requests_is_long(monkeypatch):
    """SIGTERM just before the wait did not end it: 1 of 17 servers went on, if it came at once."""
    waits = []

    class Waiting:
        def get(self, timeout=None):
            waits.append(timeout)
            if len(waits) < 3:
                raise queue.Empty
            return None

    program = types.SimpleNamespace(_package=types.SimpleNamespace(entries=()))
    exported = types.SimpleNamespace(_program=program, _sizes=None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    batches = Batches(exported, 1, 0, None)
    monkeypatch.setattr(batches, "_waiting", Waiting())
    assert batches._take() == []
    assert len(waits) == 3 and all(w is not None and w <= 1 for w in waits)

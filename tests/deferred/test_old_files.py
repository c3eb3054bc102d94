"""Files that name `weft.deferred`, where all of weft.batching was, load as they did."""

from __future__ import annotations

import base64
import operator
import pickle

import weft

# pickle.dumps([weft.autobatch, weft.explain, weft.deferred,
#     weft.autobatch(operator.neg, max_batch=3, out_stack=True),
#     weft.explain(operator.neg, [weft.ones(2), weft.ones(3)])], protocol=4), before the move
BEFORE = """
gASV8gEAAAAAAABdlCiMDXdlZnQuZGVmZXJyZWSUjAlhdXRvYmF0Y2iUk5RoAYwHZXhwbGFpbpSTlGgBjAhkZWZlcnJl
ZJSTlIwJZnVuY3Rvb2xzlIwHcGFydGlhbJSTlGgDhZRSlChoAyl9lCiMCW1heF9iYXRjaJRLA4wJb3V0X3N0YWNrlIiM
CGFkYXB0aXZllIh1TnSUYowJX29wZXJhdG9ylIwDbmVnlJOUhZRSlGgFKYGUfZQojAdmbHVzaGVzlF2UfZQojAZjYXVz
ZXOUXZSMBnJlYXNvbpSMB3RoZSBlbmSUjAVjYWxsc5RLAowKcGxhbl9rbm93bpSJjAZwbGFuX3OURz7cD1VAAAAAjAZw
YWNrX3OURz7ni3MgAAAAjAVydW5fc5RHPtoK3OAAAACMB2JhdGNoZXOUXZR9lCiMAm9wlIwDbmVnlIwFY2FsbHOUSwKM
BHJvd3OUSwWMB2FsaWFzZWSUSwCMBnBhY2tlZJRLAYwGcGllY2VzlEsCjAN3aHmUjACUjAVhcGFydJRoMIwFbGluZXOU
XZSMD2FuIHVua25vd24gbGluZZRLAoaUYXVhdWGMB3NhdmVkX3OUR7758SWZLRJRjAdvdXRwdXRzlE6MBl9maXJzdJRL
AIwJX3NhdmVkX25zlEcAAAAAAAAAAHViZS4=
"""


def test_a_file_from_before_the_move() -> None:
    autobatch, explain, deferred, batched, report = pickle.loads(base64.b64decode(BEFORE))
    assert (autobatch, explain, deferred) == (weft.autobatch, weft.explain, weft.deferred)
    assert batched([weft.ones(2), weft.zeros(2)]).tolist() == [[-1, -1], [0, 0]]
    assert report.calls == 2 and report.batches == 1 and "neg" in str(report)


def test_what_is_written_now_loads_too() -> None:
    batched = weft.autobatch(operator.neg, out_stack=True)
    report = weft.explain(operator.neg, [weft.ones(2)])
    report.outputs = None
    again, told = pickle.loads(pickle.dumps([batched, report]))
    assert again([weft.ones(2)]).tolist() == [[-1, -1]] and told.calls == 1


def test_the_old_import_path() -> None:
    from weft.deferred import Autobatched, Report, autobatch, deferred, explain

    assert weft.autobatch is autobatch and weft.deferred is deferred and weft.explain is explain
    assert isinstance(weft.autobatch(abs), Autobatched) and issubclass(explain, Report)

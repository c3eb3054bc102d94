"""A program that fails, and where its frames are looked at, for more than one file of tests."""

import sys

import pytest

on_311 = pytest.mark.skipif(sys.version_info >= (3, 12), reason="frames of other versions")


def fails(x, *rest, key=1):
    local = x + 1

    def inner():
        return local

    return [y / 0 for y in (local, inner())]


def calls_what_fails(z):
    before = z * 2
    return fails(before, 7, key=3)

"""libweft and a compiler, for the tests that need them."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from built import BUILD, ROOT
from libweft import library


@pytest.fixture(scope="session")
def libweft_folder() -> Path:
    """Where libweft.so and libweft.a lie, linked of the objects of `make build`; WEFT_LIBWEFT says
    where another libweft.a is, WEFT_LIBWEFT_FLAGS what to compile with it, and WEFT_EMULATOR what
    runs programs of that build's processor."""
    if "WEFT_LIBWEFT" in os.environ:
        return Path(os.environ["WEFT_LIBWEFT"])
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    cmake = shutil.which("cmake", path=tools)
    if not cmake or not (BUILD / "build.ninja").exists():
        pytest.skip("needs cmake and the objects of `make build`")
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("`make sanitize-libweft` is what sanitizes it")
    with open(BUILD / "libweft.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # pytest-xdist has a session for each worker
        subprocess.run(
            [cmake, "--build", BUILD, "--target", "weft_shared", "weft_static"],
            env={**os.environ, "PATH": tools},
            check=True,
            capture_output=True,
        )
    return BUILD


def emulated(program: Path) -> Path:
    """A program that runs another one as WEFT_EMULATOR says, if it says anything."""
    if "WEFT_EMULATOR" not in os.environ:
        return program
    runs = program.with_suffix(".sh")
    runs.write_text(f'#!/bin/sh\nexec {os.environ["WEFT_EMULATOR"]} "{program}" "$@"\n')
    runs.chmod(0o755)
    return runs


@pytest.fixture(scope="session")
def lib(libweft_folder: Path) -> ctypes.CDLL:
    """libweft in this process: it shares nothing with the extension."""
    return library(libweft_folder / "libweft.so")


@pytest.fixture(scope="session")
def compiled(libweft_folder: Path, tmp_path_factory: pytest.TempPathFactory):
    """Makes a program of a source in C or C++, linked with libweft.a or libweft.so."""
    folder = tmp_path_factory.mktemp("programs")

    def compiled(source: Path, shared: bool = False, *flags: str) -> Path:
        name, standard = ("CC", "-std=c99") if source.suffix == ".c" else ("CXX", "-std=c++20")
        compiler = os.environ.get(name) or shutil.which("cc" if name == "CC" else "c++")
        linker = os.environ.get("CXX") or shutil.which("c++")
        if not compiler or not linker:
            pytest.skip(f"needs a compiler ({name})")
        made = folder / f"{source.stem}{'_shared' if shared else ''}"
        kept = folder / f"{source.stem}.o"
        warnings = ["-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        others = os.environ.get("WEFT_LIBWEFT_FLAGS", "").split()
        command = [compiler, standard, *warnings, *others, f"-I{ROOT / 'src'}", *flags]
        subprocess.run([*command, "-c", source, "-o", kept], check=True)
        library = (
            [libweft_folder / "libweft.so", f"-Wl,-rpath,{libweft_folder}"]
            if shared
            else [libweft_folder / "libweft.a"]
        )
        link = [linker, *others, kept, "-o", made, *library, "-ldl", "-lpthread"]
        subprocess.run(list(map(str, link)), check=True)
        return emulated(made)

    return compiled

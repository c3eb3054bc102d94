"""The C++ tests of kernels and thread pool, built against the objects of `make build`, or of the
build that WEFT_LIBWEFT names, and run on every instruction set that this processor has."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from built import BUILD, ROOT, commands

FOLDER = Path(os.environ.get("WEFT_LIBWEFT", BUILD))
EMULATOR = os.environ.get("WEFT_EMULATOR", "").split()
PROGRAMS = sorted([*ROOT.glob("tests/kernels/*.cpp"), *ROOT.glob("tests/base/*.cpp")])
FLAGS = ["-std=c++20", "-O2", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each test program, compiled once."""
    compiler = os.environ.get("CXX") or shutil.which("g++")
    if not compiler or not (FOLDER / "compile_commands.json").exists():
        pytest.skip("needs g++ and the objects of `make build`")
    folder = tmp_path_factory.mktemp("kernels")
    objects = [
        made
        for file, (_, made) in commands(FOLDER).items()
        if re.fullmatch(r".*/(kernels|base)/[^/]*|.*/unity_(kernels|base)_[^/]*", file)
    ]
    programs = {}
    for source in PROGRAMS:
        programs[source.stem] = folder / source.stem
        command = [
            compiler,
            *FLAGS,
            f"-I{ROOT / 'src'}",
            source,
            *objects,
            "-o",
            folder / source.stem,
        ]
        subprocess.run([*map(str, command), "-ldl", "-lpthread"], check=True)
    return programs


@pytest.mark.parametrize("level", ["avx512", "avx2", "baseline"])
@pytest.mark.parametrize("program", [p.stem for p in PROGRAMS])
def test_kernels(built: dict[str, Path], program: str, level: str) -> None:
    import scipy_openblas32

    blas = Path(scipy_openblas32.get_lib_dir()) / "libscipy_openblas.so"
    env = {**os.environ, "WEFT_CPU": level, "WEFT_BLAS": str(blas)}
    # Under an emulator no program starts itself again for other levels.
    command = [*EMULATOR, built[program], *(["again"] if EMULATOR else [])]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr

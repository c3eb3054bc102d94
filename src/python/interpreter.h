/// CPython's frames as they lie in memory, where they are read so (3.11). To be included before all else.
#pragma once
#define Py_BUILD_CORE 1
#include <Python.h>
#if PY_VERSION_HEX < 0x030c0000
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#endif
#undef Py_BUILD_CORE

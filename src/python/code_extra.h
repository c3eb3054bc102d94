/// What CPython keeps for others beside a code object (PEP 523), whose functions have other names in 3.11.
#pragma once
#include <Python.h>

namespace weft::python {

#if PY_VERSION_HEX < 0x030c0000
inline constexpr auto get_extra = _PyCode_GetExtra;
inline constexpr auto set_extra = _PyCode_SetExtra;
inline constexpr auto request_extra_index = _PyEval_RequestCodeExtraIndex;
#else
inline constexpr auto get_extra = PyUnstable_Code_GetExtra;
inline constexpr auto set_extra = PyUnstable_Code_SetExtra;
inline constexpr auto request_extra_index = PyUnstable_Eval_RequestCodeExtraIndex;
#endif

}  // namespace weft::python

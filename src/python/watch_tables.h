/// The tables of a log for NumPy: the bytes of their rows, and how a row is laid out.
#pragma once
#include "python/object.h"
#include "watch/log.h"

#include <span>
#include <string_view>

namespace weft::python {

/// The bytes of the table of that name. Throws ValueError if there is none.
PyObject* table_bytes(watch::Log& log, std::string_view name);

/// By ops::SpanKind.
std::span<const char* const> kind_names();

/// Puts `layouts`, `kinds`, `dtypes` and `marks` into the dict of the class of logs.
void add_layouts(PyObject* dict);

}  // namespace weft::python

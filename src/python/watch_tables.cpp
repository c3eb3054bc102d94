#include "python/watch_tables.h"

#include <cstring>
#include <iterator>

namespace weft::python {
namespace {

using watch::Event, watch::Flops, watch::Found, watch::Log, watch::Memory, watch::Seen,
    watch::Statistics;

template <auto rows>
PyObject* bytes_of(const Log& log) {
    const auto& table = log.*rows;
    constexpr size_t kSize = sizeof(table[0]);
    PyObject* out =
        PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(table.size() * kSize));
    if (!out) return nullptr;
    char* to = PyBytes_AS_STRING(out);
    table.for_pieces([&](const auto* first, size_t count) {
        std::memcpy(to, first, count * kSize);
        to += count * kSize;
    });
    return out;
}

struct Field {
    const char* name;
    const char* format;  ///< NumPy's
    size_t offset;
};
struct Table {
    const char* name;
    PyObject* (*bytes)(const Log&);
    size_t size;  ///< of a row
    std::initializer_list<Field> fields;
};

#define FIELD(Row, field, format) {#field, format, offsetof(Row, field)}

// clang-format off
const Table kTables[] = {
    {"events", bytes_of<&Log::events>, sizeof(Event),
     {FIELD(Event, kind, "u1"), FIELD(Event, failed, "?"), FIELD(Event, in_place, "?"),
      FIELD(Event, backward, "?"), FIELD(Event, inputs, "u4"), FIELD(Event, outputs, "u4"),
      FIELD(Event, parent, "i4"), FIELD(Event, name, "i4"), FIELD(Event, site, "i4"),
      FIELD(Event, module, "i4"), FIELD(Event, operands, "u4"), FIELD(Event, saved, "u4"),
      FIELD(Event, node, "u8"), FIELD(Event, began, "i8"), FIELD(Event, ended, "i8"),
      FIELD(Event, stack, "i4"), FIELD(Event, bytes_before, "i8"), FIELD(Event, bytes, "i8")}},
    {"values", bytes_of<&Log::values>, sizeof(Seen),
     {FIELD(Seen, event, "i4"), FIELD(Seen, memory, "i4"), FIELD(Seen, dims, "u4"),
      FIELD(Seen, ndim, "u1"), FIELD(Seen, dtype, "u1"), FIELD(Seen, marks, "u1")}},
    {"memories", bytes_of<&Log::memories>, sizeof(Memory),
     {FIELD(Memory, storage, "u8"), FIELD(Memory, bytes, "i8"), FIELD(Memory, event, "i4"),
      FIELD(Memory, since, "i4"), FIELD(Memory, freed, "i4"), FIELD(Memory, last, "i4")}},
    {"found", bytes_of<&Log::found>, sizeof(Found),
     {FIELD(Found, value, "i4"), FIELD(Found, tensor, "u8")}},
    {"flops", bytes_of<&Log::flops>, sizeof(Flops),
     {FIELD(Flops, event, "i4"), FIELD(Flops, count, "i8")}},
    {"statistics", bytes_of<&Log::statistics>, sizeof(Statistics),
     {FIELD(Statistics, value, "i4"), FIELD(Statistics, counted, "u4"),
      FIELD(Statistics, nans, "u4"), FIELD(Statistics, infs, "u4"), FIELD(Statistics, mean, "f8"),
      FIELD(Statistics, std, "f8"), FIELD(Statistics, least, "f8"),
      FIELD(Statistics, most, "f8")}},
    {"operands", bytes_of<&Log::operands>, sizeof(int32_t), {{"value", "i4", 0}}},
    {"dims", bytes_of<&Log::dims>, sizeof(int64_t), {{"size", "i8", 0}}},
};
// clang-format on

constexpr const char* kKinds[] = {"call", "module", "function", "backward",
                                  "node", "step",   "flush",    "named"};
static_assert(std::size(kKinds) == static_cast<size_t>(ops::SpanKind::Named) + 1);

/// (name, [(field, format, offset)], bytes of a row) of each table.
Object layouts() {
    Object all = Object::take(PyList_New(0));
    for (const Table& table : kTables) {
        Object fields = Object::take(PyList_New(0));
        for (const auto& [name, format, offset] : table.fields)
            checked(PyList_Append(
                fields.get(),
                Object::take(Py_BuildValue("(ssn)", name, format, static_cast<Py_ssize_t>(offset)))
                    .get()));
        Object row = Object::take(
            Py_BuildValue("(sOn)", table.name, fields.get(), static_cast<Py_ssize_t>(table.size)));
        checked(PyList_Append(all.get(), row.get()));
    }
    return all;
}

Object kinds() {
    Object out = Object::take(PyTuple_New(std::size(kKinds)));
    for (size_t i = 0; i < std::size(kKinds); ++i)
        PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), py_str(kKinds[i]).release());
    return out;
}

/// By the number that a value's row has for it.
Object dtype_names() {
    Object out = Object::take(PyDict_New());
    for (DType t : kDTypes)
        checked(PyDict_SetItem(out.get(), py_int(static_cast<int64_t>(t)).get(), dtype_object(t)));
    return out;
}

}  // namespace

std::span<const char* const> kind_names() { return kKinds; }

PyObject* table_bytes(Log& log, std::string_view name) {
    for (const Table& table : kTables) {
        if (name != table.name) continue;
        if (table.bytes == bytes_of<&Log::events>) log.name_calls();
        return table.bytes(log);
    }
    fail(ErrorKind::Value, "_Log.table", "the name of a table", name);
}

void add_layouts(PyObject* dict) {
    checked(PyDict_SetItemString(dict, "layouts", layouts().get()));
    checked(PyDict_SetItemString(dict, "kinds", kinds().get()));
    checked(PyDict_SetItemString(dict, "dtypes", dtype_names().get()));
    Object marks =
        Object::take(Py_BuildValue("(iii)", watch::kRequiresGrad, watch::kView, watch::kStrided));
    checked(PyDict_SetItemString(dict, "marks", marks.get()));
}

}  // namespace weft::python
